"""Drawn inspections: predictions beside those of the untouched run, and a grid of what moved."""

from dataclasses import replace
from pathlib import Path

import bertscope
import numpy as np
import pytest

PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")


def mask(*words: tuple[str, float]) -> bertscope.FilledMask:
    entries = [bertscope.Prediction(word, (word,), (ord(word[-1]),), share, -1.0, None, 1) for word, share in words]
    return bertscope.FilledMask(tuple(entries), 4, 10, 1)


RUN, BEFORE = mask(("$a", 0.5), ("b", 0.25), ("c", 0.1)), mask(("b", 0.75), ("$a", 0.125))
START = bertscope.InspectionStart(
    "The [MASK]", None, (), (), 0, True, (RUN,) * 4, (BEFORE,) * 4, True, (), 2, 3, 0.001, PROVENANCE
)  # fmt: skip
MOVED = np.array([[0, 0, 0], [0.1, 0.2, 0.4]], np.float32)
WHOLE = bertscope.Inspection(START, bertscope.InspectionDistances(MOVED, None), ())


def test_predictions_beside_those_of_the_untouched_run() -> None:
    figure = bertscope.plot_inspection(WHOLE)
    first, *_, grid, _ = figure.axes
    assert [bar.get_width() for bar in first.patches] == [50, 25, 10]
    assert [line.get_xdata()[0] for line in first.lines] == [12.5, 75]  # the third was not among the likeliest
    assert [label.get_text() for label in first.get_yticklabels()] == [r"\$a", "b", "c"]
    np.testing.assert_allclose(grid.images[0].get_array(), 100 * MOVED)
    assert (grid.get_xlabel(), grid.get_ylabel(), grid.images[0].origin) == ("head", "layer", "lower")
    assert len(figure.axes) == 3 + 2  # three masks, the grid, its scale
    assert figure.get_suptitle() == "The [MASK]\nmodels/m; 1 more masks are not shown"


def test_inspections_with_one_half_or_none(tmp_path: Path) -> None:
    alone = replace(WHOLE, distances=None, start=replace(START, masks=(RUN,), untouched_masks=()))
    (axes,) = bertscope.plot_inspection(alone).axes
    assert not axes.lines
    still = replace(WHOLE, start=replace(START, masks=(), untouched_masks=()))
    bertscope.save_inspection(still, tmp_path / "a.png", dark=True, title="what moved")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(bertscope.InvalidArgument, match="neither predictions nor distances"):
        bertscope.plot_inspection(replace(still, distances=None))
