"""Options of how figures look: the page, the width and the letters that a paper asks for."""

from dataclasses import dataclass
from typing import Any

from bertscope_workbench.command.groups import option
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


def _option(written: str, text: str, **more: Any) -> Any:
    """Returns an option that the help lists among these."""
    return option(written, text, needs="plot", rich_help_panel="Figure", **more)


@dataclass(frozen=True)
class LookOptions:
    """How a figure looks."""

    dark: bool = _option("--dark", "Draw on a dark page.", default=False)
    width: str | None = _option("--width WIDTH", "column or page, of a paper in two columns, or a number of LaTeX's points.")
    font_size: float | None = _option(
        "--font-size POINTS", "The size of letters; 8 with --width, else 10.", min=LEAST_FONT, max=MOST_FONT
    )
    no_title: bool = _option("--no-title", "Leave out the title, for there is a caption.", default=False)

    def __post_init__(self) -> None:
        """Rejects a width that is none."""
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
