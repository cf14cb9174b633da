"""Options of how figures look: the page, the width and the letters that a paper asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bertscope_workbench.command.groups import option, refuse, values_of
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.plots.look import Look

POINTS_PER_INCH = 72.27
"""Points of LaTeX, in which its lengths are."""
WIDTHS = {"column": 219.08, "page": 455.24}
"""Points: a column, and both, of the style files of ACL."""
LEAST_WIDTH, MOST_WIDTH = 100, 2000
LEAST_FONT, MOST_FONT = 4, 40
SMALL_FONT = 8.0
"""The size of letters in a figure whose width is given, points."""
LOOKS = ("plot", "dark", "width", "font_size", "no_title")
"""The options of a figure, as commands offer them."""


@dataclass(frozen=True)
class LookOptions:
    """How a figure looks."""

    dark: Annotated[bool, option("--dark", "With --plot: draw on a dark page.")] = False
    width: Annotated[
        str | None,
        option("--width WIDTH", "With --plot: column or page, of a paper in two columns, or a number of LaTeX's points."),
    ] = None
    font_size: Annotated[
        float | None,
        option(
            "--font-size POINTS", "With --plot: the size of letters; 8 with --width, else 10.", min=LEAST_FONT, max=MOST_FONT
        ),
    ] = None
    no_title: Annotated[bool, option("--no-title", "With --plot: leave out the title, for there is a caption.")] = False

    def require_plot_for_look(self, plot: Path | None) -> None:
        """Raises UsageError for an option of a figure if none is drawn, and for a width that is none."""
        if plot is None:
            refuse(values_of(self, "dark", "width", "font_size", "no_title"), "goes with --plot")
        self.inches()

    def inches(self) -> float | None:
        """Returns the width of a figure. Raises UsageError for one that is not a width."""
        if self.width is None:
            return None
        try:
            points = WIDTHS.get(self.width) or float(self.width)
        except ValueError:
            points = 0
        if not LEAST_WIDTH <= points <= MOST_WIDTH:
            raise UsageError(f"--width: give column, page, or points from {LEAST_WIDTH} to {MOST_WIDTH}, not {self.width}")
        return points / POINTS_PER_INCH

    @property
    def look(self) -> Look:
        """The look that is asked of the figure, as functions that draw take it."""
        look, inches = Look(), self.inches()
        if self.dark:
            look["dark"] = True
        if inches is not None:
            look["figsize"] = inches, None
        size = self.font_size or (SMALL_FONT if inches is not None else None)
        if size is not None:
            look["font_size"] = size
        if self.no_title:
            look["title"] = ""
        return look
