"""Defines figures that a notebook shows by themselves. It imports matplotlib, so that only what draws may import it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure, FigureBase, SubFigure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

from bertscope_workbench.plots.look import asked_title, points
from bertscope_workbench.plots.theme import LABEL_SIZE, TITLE_SIZE, Theme, boxes_unmentioned, fitted, shown

PIXELS_PER_INCH = 96
"""Pixels of a page, as browsers count; the file has more, for sharp screens."""
LEAST_LABEL = 1.2
"""Inches: the least length of a line of an axis' name."""
LETTER, MARK = 0.52, 7
"""The usual width of a legend's letter, of its height, and the letters that a mark with the space around it takes."""
FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
)
"""Fonts with characters that matplotlib's own lacks, Chinese, Japanese and Korean ones above all."""


@cache
def fallbacks() -> tuple[str, ...]:
    """Returns those of these fonts that this machine has."""
    there = {font.name for font in fontManager.ttflist}
    return tuple(name for name in FALLBACKS if name in there)


def columns_within(width: float, labels: Sequence[str], most: int) -> int:
    """Returns how many columns, at most so many, a legend of these labels has within a width in inches."""
    letters = LETTER * points(8) / 72 * (max(map(len, labels), default=0) + MARK)
    return max(1, min(most, int(width / letters)))


class Themed(FigureBase):
    """A figure, or a part of one, in a theme."""

    theme: Theme

    @property
    def inches(self) -> tuple[float, float]:
        """The width and height, inches."""
        box = self.get_window_extent()
        dots: float = self.get_figure(root=True).dpi
        return box.width / dots, box.height / dots

    def add_axes(self, *arguments: Any, **options: Any) -> Axes:
        """Adds axes in the theme's colours."""
        return self._styled(super().add_axes(*arguments, **options))

    def add_subplot(self, *arguments: Any, **options: Any) -> Axes:
        """Adds axes in the theme's colours."""
        return self._styled(super().add_subplot(*arguments, **options))

    def _styled(self, axes: Axes) -> Axes:
        """Gives axes text in ink, a faint frame, no ticks, and once `grid` is called faint lines."""
        theme = self.theme
        axes.set_facecolor(theme.page)
        axes.set_axisbelow(True)
        axes.tick_params(which="both", length=0, labelsize=points(8), color=theme.faint, labelcolor=theme.ink)
        axes.tick_params(which="both", grid_color=theme.faint, grid_linewidth=0.5, grid_alpha=0.8)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set(color=theme.ink, fontsize=points(LABEL_SIZE))
        axes.spines[:].set_color(theme.faint)
        return axes

    def set_heading(self, default: str, y: float | None = None) -> None:
        """Sets the title that the caller asked for, else the default, broken into lines if it is wider than the figure; `y` is
        its top, a share of the height."""
        place: dict[str, Any] = {} if y is None else {"y": y}  # With a given position, matplotlib's layout does not move it.
        if title := asked_title(default):
            size = points(TITLE_SIZE)
            self.suptitle(fitted(shown(title), self.inches[0], size), color=self.theme.ink, fontsize=size, **place)

    def wrap_labels(self) -> None:
        """Breaks names of axes that are longer than their axes into lines, so that none is cut."""
        whole = self.get_figure(root=True)
        whole.draw_without_rendering()  # type: ignore[union-attr, unused-ignore]  # the layout says how long axes are
        every: list[Axes] = self.axes  # type: ignore[assignment, unused-ignore]
        for axes in every:
            box, size = axes.get_window_extent(), points(LABEL_SIZE)
            for axis, length in ((axes.xaxis, box.width), (axes.yaxis, box.height)):
                room = max(LEAST_LABEL, length / whole.dpi)  # type: ignore[union-attr, unused-ignore]
                axis.label.set_text(fitted(axis.label.get_text(), room, size))

    def add_colorbar(self, image: Any, axes: Any, label: str = "", cax: Axes | None = None, **shape: Any) -> Colorbar:
        """Adds a colour bar beside the axes, or below them, or in the place of `cax`; `shape` goes to matplotlib."""
        place: dict[str, Any] = {"cax": cax} if cax else {"ax": axes, "shrink": 0.6, "aspect": 30, "pad": 0.02} | shape
        bar = self.colorbar(image, **place)
        bar.set_label(label, color=self.theme.ink, fontsize=points(LABEL_SIZE))
        bar.ax.tick_params(length=3.5, labelsize=points(8), color=self.theme.faint, labelcolor=self.theme.ink)
        bar.outline.set_edgecolor(self.theme.faint)  # type: ignore[operator, unused-ignore]  # the stub says: the colour
        return bar

    def add_legend(self, axes: Axes, columns: int, first: Sequence[tuple[Any, str]] = ()) -> None:
        """Adds a legend below the axes: the pairs of a handle and a label in `first`, then the labelled marks."""
        pairs = [*first, *zip(*axes.get_legend_handles_labels(), strict=True)]
        columns = columns_within(self.inches[0], [label for _, label in pairs], columns)
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": points(8)}
        self.legend(*zip(*pairs, strict=True), labelcolor=self.theme.ink, **place)


class ThemedPart(Themed, SubFigure):
    """A part of a figure of the caller's, in a theme, in the place of axes."""

    def __init__(self, theme: Theme, axes: Axes) -> None:
        place, figure = axes.get_subplotspec(), axes.figure
        if place is None or figure is None:
            raise ValueError("ax must be in a grid, as plt.subplots and add_subplot make them")
        axes.remove()
        super().__init__(figure, place, facecolor=theme.page)
        self.theme = theme
        figure.subfigs += [self]
        if (whole := self.get_figure(root=True)) is not None and whole.get_layout_engine() is None:
            whole.set_layout_engine("constrained")


class ThemedFigure(Themed, Figure):
    """A figure in a theme, that a notebook shows without pyplot and its inline backend, which show plain figures as text only.

    Characters that matplotlib's font lacks are drawn in another font of the machine, if one has them.
    """

    def __init__(self, theme: Theme, **options: Any) -> None:
        super().__init__(facecolor=theme.page, **options)
        self.theme = theme

    def draw(self, renderer: Any) -> None:
        """Draws the figure."""
        for text in self.findobj(Text):
            families = text.get_fontfamily()
            if not text.get_text().isascii() and not {*fallbacks()} <= {*families}:
                text.set_fontfamily([*families, *fallbacks()])
        super().draw(renderer)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Returns a .png, and its width and height on a page, pixels."""
        written = io.BytesIO()
        with boxes_unmentioned():
            self.savefig(written, format="png")
        width, height = self.get_size_inches()
        return written.getvalue(), {"width": round(PIXELS_PER_INCH * width), "height": round(PIXELS_PER_INCH * height)}
