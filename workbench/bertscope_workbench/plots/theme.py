"""Defines the colours and sizes of figures, and prepares their texts. It does without matplotlib."""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bertscope_workbench.plots.look import Look

INK, FAINT = "#1d2b3a", "#c9d3dd"
TITLE_SIZE, LABEL_SIZE = 11, 9
"""Points: of a figure's title, and of the names of axes."""
CHARACTERS_PER_INCH = 11
"""Characters of a title per inch; longer titles are broken into lines."""
GLYPH = re.compile("Glyph .* missing from")
"""matplotlib's warning of a character that no font has, one for each."""


@dataclass(frozen=True)
class Theme:
    """The colours of a figure."""

    page: str
    """The background."""
    ink: str
    """Text and marks."""
    faint: str
    """Frames and grids."""
    none_to_much: tuple[str, ...]
    """The colours of a scale from 0 to the most, the first one close to the page's."""
    lines: tuple[str, str]
    """Lines of data, and others."""


LIGHT = Theme("white", INK, FAINT, ("#f7f7f7", "#dcebf7", "#9ecae8", "#4292c6", "#14549c", "#08264f"), ("#14549c", "#dd6b20"))
DARK = Theme(
    "#11181f", "#dde5ec", "#3d4a57", ("#18222c", "#173a5e", "#1f66a8", "#4f9fd9", "#a8d2ee", "#f2f8fc"), ("#6cb4e8", "#f5a35c")
)


def theme_of(look: Look) -> Theme:
    """Returns the colours of a dark page, or of a light one."""
    return DARK if look.get("dark") else LIGHT


def shown(text: str) -> str:
    """Returns the text as matplotlib shows it unchanged: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, most: int, end: str = "…") -> str:
    """Returns at most so many characters of a text, the last ones in place of the rest."""
    return text if len(text) <= most else f"{text[: most - len(end)]}{end}"


def fitted(text: str, width: float, size: float = TITLE_SIZE) -> str:
    """Returns the text, broken into lines of this width in inches in letters of `size` points."""
    characters = max(1, int(width * CHARACTERS_PER_INCH * TITLE_SIZE / size))
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, characters))


@contextmanager
def boxes_unmentioned() -> Iterator[None]:
    """Silences the warnings about characters that the font lacks, one for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=GLYPH.pattern, category=UserWarning)
        yield
