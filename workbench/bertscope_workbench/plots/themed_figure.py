"""Defines figures that a notebook shows by themselves. It imports matplotlib, so that only what draws may import it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

from bertscope_workbench.plots.glyphs import boxes_unmentioned
from bertscope_workbench.plots.theme import LABEL_SIZE, TITLE_SIZE, Theme, fitted, shown

PIXELS_PER_INCH = 96
"""Pixels of a page, as browsers count; the file has more, for sharp screens."""
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


class ThemedFigure(Figure):
    """A figure in a theme, that a notebook shows without pyplot and its inline backend, which show plain figures as text only.

    Characters that matplotlib's font lacks are drawn in another font of the machine, if one has them.
    """

    def __init__(self, theme: Theme, **options: Any) -> None:
        super().__init__(facecolor=theme.page, **options)
        self.theme = theme

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
        axes.tick_params(which="both", length=0, labelsize=8, color=theme.faint, labelcolor=theme.ink)
        axes.tick_params(which="both", grid_color=theme.faint, grid_linewidth=0.5, grid_alpha=0.8)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set(color=theme.ink, fontsize=LABEL_SIZE)
        axes.spines[:].set_color(theme.faint)
        return axes

    def set_heading(self, title: str | None, default: str = "", y: float | None = None) -> None:
        """Sets the title, the default for None, broken into lines if it is wider than the figure; `y` is its top, a share of
        the height."""
        place: dict[str, Any] = {} if y is None else {"y": y}  # With a given position, matplotlib's layout does not move it.
        heading = fitted(shown(default if title is None else title), self.get_figwidth())
        self.suptitle(heading, color=self.theme.ink, fontsize=TITLE_SIZE, **place)

    def add_colorbar(self, image: Any, axes: Any, label: str = "", cax: Axes | None = None, **shape: float) -> Colorbar:
        """Adds a colour bar beside the axes, or in the place of `cax`; `shape` goes to matplotlib."""
        place: dict[str, Any] = {"cax": cax} if cax else {"ax": axes, "shrink": 0.6, "aspect": 30, "pad": 0.02} | shape
        bar = self.colorbar(image, **place)
        bar.set_label(label, color=self.theme.ink, fontsize=LABEL_SIZE)
        bar.ax.tick_params(length=3.5, labelsize=8, color=self.theme.faint, labelcolor=self.theme.ink)
        bar.outline.set_edgecolor(self.theme.faint)  # type: ignore[operator, unused-ignore]  # the stub says: the colour
        return bar

    def add_legend(self, axes: Axes, columns: int, first: Sequence[tuple[Any, str]] = ()) -> None:
        """Adds a legend below the axes: the pairs of a handle and a label in `first`, then the labelled marks."""
        pairs = [*first, *zip(*axes.get_legend_handles_labels(), strict=True)]
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": 8}
        self.legend(*zip(*pairs, strict=True), labelcolor=self.theme.ink, **place)

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
