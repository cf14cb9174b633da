"""Figures for papers: their width, letters and title, a place in a figure of the caller's, and files that carry text."""

import re

import bertscope_workbench as workbench
import matplotlib as mpl
import pytest
from bertscope_workbench.command.options.looks import POINTS_PER_INCH, LookOptions
from bertscope_workbench.command.options.results import OutputOptions
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.plots.figures import new_figure
from bertscope_workbench.plots.look import OPTIONS, Look
from matplotlib.figure import Figure

from tests.support.swept_tables import HEADS, curve, ranking

COLUMN = LookOptions(width="column", no_title=True).look


@pytest.mark.parametrize("figure", [workbench.plot_sweep, workbench.plot_ranking])
def test_nothing_is_cut_at_the_width_of_a_column(figure):
    drawn = figure(HEADS if figure is workbench.plot_sweep else ranking(), **COLUMN)
    drawn.draw_without_rendering()
    page = drawn.get_tightbbox()
    width, height = drawn.get_size_inches()
    assert page.x0 >= -0.02
    assert page.x1 <= width + 0.02
    assert page.y0 >= -0.02
    assert page.y1 <= height + 0.02


def test_a_figure_takes_the_place_of_axes():
    mine = Figure(figsize=(8, 4))
    left, right = mine.subplots(1, 2)
    part = workbench.plot_sweep(HEADS, ax=left, title="Part")
    mine.draw_without_rendering()
    assert left not in mine.axes
    assert right in mine.axes
    assert mine.subfigs == [part]
    assert part.get_suptitle() == "Part"
    assert part.axes[0].images[0].get_array().shape == (2, 2)
    assert part.bbox.x1 <= right.bbox.x0
    with pytest.raises(ValueError, match="ax or figsize"):
        workbench.plot_sweep(HEADS, ax=right, figsize=(3, 2))
    with pytest.raises(ValueError, match="must be in a grid"):
        workbench.plot_sweep(HEADS, ax=mine.add_axes((0, 0, 1, 1)))


def test_options_of_the_command(tmp_path):
    assert LookOptions().look == {}
    assert LookOptions(dark=True, width="144.54").look == {"dark": True, "figsize": (2.0, None), "font_size": 8}
    assert LookOptions(width="page", font_size=9).look["font_size"] == 9
    for wrong in ("wide", "99", "nan"):
        with pytest.raises(UsageError, match="--width: give column, page"):
            OutputOptions(plot=tmp_path / "a.png", width=wrong)


@pytest.mark.slow
def test_files_carry_text_no_type_3_font_and_the_width_of_a_column(tmp_path):
    workbench.save_sweep(HEADS, tmp_path / "a.pdf", **COLUMN)
    workbench.save_sweep(HEADS, tmp_path / "a.svg", title="Heads of $m$")
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in pdf and b"/CIDFontType2" in pdf
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    assert float(box[0]) == pytest.approx(219.08 * 72 / POINTS_PER_INCH, abs=0.01)
    assert re.search(r"<text [^>]*>Heads of \$m\$</text>", (tmp_path / "a.svg").read_text())


def test_letters_titles_and_sizes(stored) -> None:
    sizes = [
        workbench.plot_sweep(curve(0, 0.5, 1), figsize=size).get_size_inches() for size in ((3, 2), (6.2, None), (3.1, None))
    ]
    with mpl.rc_context({"font.size": 5, "font.family": "serif"}):
        serif = workbench.plot_sweep(HEADS)
        assert serif.axes[0].xaxis.label.get_fontfamily() == ["serif"]
    workbench.plot_sweep(HEADS, **COLUMN)
    with pytest.raises(KeyError):
        workbench.plot_sweep(HEADS, "no metric", figsize=(3, 2))
    assert mpl.rcParams["font.size"] == 10
    assert {*OPTIONS} == {*Look.__annotations__}
    stored(
        of_20_points=workbench.plot_sweep(HEADS, font_size=20, title=""),
        of_the_callers=serif,
        mine=workbench.plot_sweep(HEADS, title="Mine").get_suptitle(),
        sizes=sizes,
        not_left_to_the_next=new_figure(4, 3).get_size_inches(),
    )
