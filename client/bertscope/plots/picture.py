"""Defines figures that a notebook shows by themselves. It imports matplotlib, so that only what draws may import it."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

PIXELS_PER_INCH = 96
"""Pixels of a page, as browsers count; the file has more, for sharp screens."""


class Picture(Figure):
    """A figure that a notebook shows without pyplot and its inline backend, which show plain figures as text only."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Returns a .png, and its width and height on a page, pixels."""
        from bertscope.plots.figures import boxes_unmentioned

        written = io.BytesIO()
        with boxes_unmentioned():
            self.savefig(written, format="png")
        width, height = self.get_size_inches()
        return written.getvalue(), {"width": round(PIXELS_PER_INCH * width), "height": round(PIXELS_PER_INCH * height)}
