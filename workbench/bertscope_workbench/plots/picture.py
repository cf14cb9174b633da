"""Defines figures that a notebook shows by themselves. It imports matplotlib, so that only what draws may import it."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

from bertscope_workbench.plots.glyphs import boxes_unmentioned

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


class Picture(Figure):
    """A figure that a notebook shows without pyplot and its inline backend, which show plain figures as text only.

    Characters that matplotlib's font lacks are drawn in another font of the machine, if one has them.
    """

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
