"""What all figures share: ink, title, colour bar, formats. matplotlib is imported only when a figure is made."""

from __future__ import annotations

import textwrap
import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_FORMATS = (".png", ".svg", ".pdf")
INK, FAINT = "#1d2b3a", "#c9d3dd"
CHARACTERS_PER_INCH = 11
"""Of a title; longer ones are broken into lines."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, inches. Raises ImportError, naming the extra, without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('figures need matplotlib: pip install "bertscope[plot]"') from error
    return Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")


def set_title(figure: Figure, heading: str) -> None:
    """A title that is broken into lines where it is wider than the figure."""
    characters = int(figure.get_figwidth() * CHARACTERS_PER_INCH)
    lines = [part for line in heading.split("\n") for part in textwrap.wrap(line, characters)]
    figure.suptitle("\n".join(lines), color=INK, fontsize=11)


def add_colorbar(figure: Figure, image: Any, axes: Any, label: str) -> None:
    """A colour bar beside the axes."""
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label(label, color=INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, color=FAINT, labelcolor=INK)
    bar.outline.set_edgecolor(FAINT)  # type: ignore[operator, unused-ignore]  # the stub takes it for the patch's colour


def outline(axes: Axes) -> None:
    """A faint frame."""
    for spine in axes.spines.values():
        spine.set_color(FAINT)


def shown(text: str) -> str:
    """The text as matplotlib shows it unchanged: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def write(figure: Figure, path: Path) -> None:
    """Writes a figure by the end of the file's name; what the font lacks is a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)  # One for each token.
        figure.savefig(path)


def require_format(path: str | PathLike[str], formats: tuple[str, ...] = FIGURE_FORMATS) -> None:
    """Raises ValueError unless the file's name ends with one of the formats."""
    if Path(path).suffix.lower() not in formats:
        raise ValueError(f"{path}: the name must end with {', '.join(formats[:-1])} or {formats[-1]}")
