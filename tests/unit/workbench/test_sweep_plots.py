"""Figures of sweeps and rankings show the numbers, and better apart from worse."""

from dataclasses import replace

import bertscope
import numpy as np
import pytest
from bertscope import HeadEffect, SweepStart, SweepTable
from bertscope_workbench.plots.sweeps import FAINT_SHARE
from bertscope_workbench.plots.theme import DARK, LIGHT
from matplotlib.colors import to_hex, to_rgb

from tests.support.swept_tables import HEADS, SUMMARY, curve, metric_effect, ranking, table_of


@pytest.mark.parametrize("dark", [False, True])
def test_cells_look_different_from_heads_that_were_not_measured(dark):
    """Faint cells at the ends of the scale were as grey as these."""
    image = bertscope.plot_sweep(HEADS, dark=dark).axes[0].images[0]
    page = np.array(to_rgb((DARK if dark else LIGHT).page))
    missing = np.array(image.cmap.get_bad()[:3])
    for value in np.linspace(-0.4, 0.4, 41):
        color = image.cmap(image.norm(value))[:3]
        for opacity in (1, FAINT_SHARE):
            assert np.abs(opacity * np.array(color) + (1 - opacity) * page - missing).max() > 0.1


LAYERS = table_of({(0, 0, 1): 0.4, (1, 0, 1): -0.4, (2, 0, 1): 0.05}, scope="layers")
SETS = table_of({(0, *range(12)): 0.1, (1, 2): -0.4}, scope="sets")


def test_heat_maps_of_heads(stored) -> None:
    without = HeadEffect({0: (0,)}, {"accuracy": metric_effect("accuracy", 0.4, None)})
    unsure = SweepTable("zero", "heads", SweepStart({"accuracy": 0.5}, 1, 4, 0, 0, 0), (without,), (), SUMMARY)
    images = [bertscope.plot_sweep(HEADS, metric).axes[0].images[0] for metric in ("accuracy", "loss")]
    stored(
        heads=bertscope.plot_sweep(HEADS),
        better_and_worse=[[to_hex(image.to_rgba(value)) for value in (0.4, -0.4)] for image in images],
        dark=bertscope.plot_sweep(replace(HEADS, interrupted="gone"), dark=True),
        divergence=bertscope.plot_sweep(table_of({(0, 0): 0.4, (0, 1): 0.2}, "divergence")),
        without_an_interval=bertscope.plot_sweep(unsure),
        zeros=bertscope.plot_sweep(table_of({(0, 0): 0.0})),
        ranking=bertscope.plot_ranking(ranking()),
        dark_ranking=bertscope.plot_ranking(ranking(), dark=True, title="$"),
        not_measured=lambda: bertscope.plot_sweep(HEADS, "divergence"),
    )


def test_bars_of_layers_and_sets_and_curves(stored) -> None:
    """An accuracy is no less than 0 and no more than 1, whatever an interval's formula says."""
    effects = tuple(HeadEffect({layer: (0, 1)}, {"accuracy": metric_effect("accuracy", 0.1, None)}) for layer in (0, 1))
    unsure = SweepTable("zero", "layers", SweepStart({"accuracy": 0.5}, 2, 1, 0, 0, 0), effects, (), SUMMARY)
    stored(
        layers=bertscope.plot_sweep(LAYERS),
        dark_layers=bertscope.plot_sweep(LAYERS, dark=True),
        at_the_ends=bertscope.plot_sweep(table_of({(0, 0, 1): 0.45, (1, 0, 1): -0.45}, scope="layers")),
        divergences=bertscope.plot_sweep(table_of({(0, 0, 1): 0.05, (1, 0, 1): 0.2}, "divergence", "layers")),
        without_an_interval=bertscope.plot_sweep(unsure),
        sets=bertscope.plot_sweep(SETS),
        curve=bertscope.plot_sweep(curve(0, 0.25, 1)),
        dark_curve=bertscope.plot_sweep(curve(0, 0.25, 1, margin=None), dark=True),
        curve_at_the_ends=bertscope.plot_sweep(curve(-0.4, 0.0, 0.4, margin=0.3)),
    )
