"""Curves by layer: code lengths, the same marks and colours in each picture; and figures in a notebook."""

import warnings
from pathlib import Path

import bertscope
import pytest
from bertscope_workbench.plots import figures, themed_figure
from bertscope_workbench.plots import theme as themes
from bertscope_workbench.plots.layer_curves import MARKS, curve

PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")
LAYERS = (bertscope.LayerCode(0, 500.0, 4.0, 1500.0, 4 / 3), bertscope.LayerCode(6, 250.0, 8.0, 1600.0, 1.25))


@pytest.mark.parametrize("there", [True, False])
def test_characters_that_the_font_lacks_are_of_another_font_or_reported(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(themed_figure, "fallbacks", lambda: ("STIXNonUnicode",) if there else ())  # matplotlib's own
    figure = figures.new_figure(2.5, 2)
    figure.suptitle("\ue0d8")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figures.write(figure, tmp_path / "a.svg")
    assert [str(warning.message) for warning in heard] == ([] if there else [figures.BOXES])


def test_a_figure_shows_itself_in_a_notebook() -> None:
    figure = figures.new_figure(2.5, 2)
    figure.suptitle("喵")  # a character that the font lacks, without a warning
    content, size = figure._repr_png_()  # type: ignore[attr-defined]  # of the subclass
    assert content.startswith(b"\x89PNG")
    assert size == {"width": 240, "height": 192}


def test_code_lengths(stored) -> None:
    def lengths(uniform: float) -> bertscope.CodeLengths:
        return bertscope.CodeLengths(LAYERS, uniform, 1000, ("a", "b", "c", "d"), (1, 9), 0, PROVENANCE)

    figures_of_curves = {}
    for theme in (themes.LIGHT, themes.DARK):
        axes = figures.new_figure(4, 3, theme=theme).subplots()
        for number in range(len(MARKS)):
            curve(axes, [0, 1], [number, number], str(number), theme, number=number)
        assert len({line.get_color() for line in axes.lines}) == len({line.get_marker() for line in axes.lines}) == len(MARKS)
        figures_of_curves["curves" if theme is themes.LIGHT else "dark_curves"] = axes.figure
    stored(
        kilobits=bertscope.plot_code_length(lengths(2000.0)),
        bits=bertscope.plot_code_length(lengths(999.0), dark=True, title="labels"),
        **figures_of_curves,
    )
