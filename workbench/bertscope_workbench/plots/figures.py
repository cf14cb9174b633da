"""Holds the shared parts of all figures: ink, title, colour bar, formats. matplotlib is imported only when a figure is made."""

from __future__ import annotations

import inspect
import io
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from bertscope_workbench.plots.glyphs import GLYPH, boxes_unmentioned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawn = TypeVar("Drawn")
Options = ParamSpec("Options")

FIGURE_FORMATS = (".png", ".svg", ".pdf")
INK, FAINT = "#1d2b3a", "#c9d3dd"
PADDING = 0.08
"""Inches around each part, so that the name of an axis does not touch the part beside it."""
TITLE_SIZE = 11
"""Points."""
DOTS_PER_INCH = 150
MAX_SIDE_DOTS = 3600
"""Larger figures have fewer dots in an inch, 80 at least: compressing 25 million dots takes seconds."""
BOXES = "characters that no font of this machine has are boxes in the figure; a font such as Noto Sans CJK has most"
CHARACTERS_PER_INCH = 11
"""Characters of a title per inch; longer titles are broken into lines."""


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


def new_figure(width: float, height: float, *, solved: bool = True, theme: Theme = LIGHT) -> Figure:
    """Returns an empty figure, inches, which a notebook shows."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from bertscope_workbench.plots.picture import Picture

    # `solved`: matplotlib computes the layout; otherwise the caller places the parts.
    dots = min(DOTS_PER_INCH, max(80, int(MAX_SIDE_DOTS / max(width, height))))
    layout = ConstrainedLayoutEngine(w_pad=PADDING, h_pad=PADDING) if solved else None
    return Picture(figsize=(width, height), dpi=dots, layout=layout, facecolor=theme.page)


def set_title(figure: Figure, heading: str, y: float | None = None, theme: Theme = LIGHT) -> None:
    """Sets a title, broken into lines if it is wider than the figure; `y` is its top, a share of the height."""
    place: dict[str, Any] = {} if y is None else {"y": y}  # With a given position, matplotlib's layout does not move it.
    figure.suptitle(fitted(heading, figure.get_figwidth(), TITLE_SIZE), color=theme.ink, fontsize=TITLE_SIZE, **place)


def fitted(text: str, width: float, size: float) -> str:
    """Returns the text, broken into lines of this width in inches in letters of `size` points."""
    characters = int(width * CHARACTERS_PER_INCH * TITLE_SIZE / size)
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, characters))


def add_colorbar(figure: Figure, image: Any, axes: Any, label: str, cax: Any = None, theme: Theme = LIGHT) -> None:
    """Adds a colour bar beside the axes, or in the place of `cax`."""
    bar = figure.colorbar(image, cax=cax) if cax else figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label(label, color=theme.ink, fontsize=9)
    bar.ax.tick_params(labelsize=8, color=theme.faint, labelcolor=theme.ink)
    bar.outline.set_edgecolor(theme.faint)  # type: ignore[operator, unused-ignore]  # the stub declares it as the patch's colour


def color_scale(theme: Theme) -> Any:
    """Returns the colours of a scale from 0 to the most."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("bertscope", theme.none_to_much)


def outline(axes: Axes, theme: Theme = LIGHT) -> None:
    """Draws a faint frame."""
    for spine in axes.spines.values():
        spine.set_color(theme.faint)


def shown(text: str) -> str:
    """Returns the text as matplotlib shows it unchanged: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def write(figure: Figure, path: Path) -> None:
    """Writes a figure by the suffix of the file's name; characters that no font has are boxes, of which one warning tells."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figure.savefig(path)
    lacking = [warning for warning in heard if GLYPH.search(str(warning.message))]
    for warning in heard:
        if warning not in lacking:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if lacking:
        warnings.warn(BOXES, UserWarning, stacklevel=3)


def svg_bytes(figure: Figure) -> bytes:
    """Returns a figure as SVG that names nothing outside it, and not when it was drawn: the same figure gives the same
    bytes."""
    import matplotlib

    written = io.BytesIO()
    with boxes_unmentioned(), matplotlib.rc_context({"svg.hashsalt": "bertscope"}):  # Else names of parts are drawn by lot.
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def saving(
    plot: Callable[Concatenate[Drawn, Options], Figure],
) -> Callable[Concatenate[Drawn, str | PathLike[str], Options], None]:
    """Returns the function that writes the figures of another one, such as `save_lens` of `plot_lens`."""

    def save(drawn: Drawn, path: str | PathLike[str], *arguments: Options.args, **options: Options.kwargs) -> None:
        require_format(path)
        write(plot(drawn, *arguments, **options), Path(path))

    name = update_wrapper(save, plot).__name__
    save.__name__ = save.__qualname__ = name.replace("plot_", "save_")
    save.__doc__ = f"Writes `{name}` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."
    first, *others = inspect.signature(plot).parameters.values()
    where = inspect.Parameter("path", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="str | PathLike[str]")
    save.__signature__ = inspect.Signature([first, where, *others], return_annotation="None")  # type: ignore[attr-defined]
    return save  # type: ignore[return-value]  # the first two may be named


def require_format(path: str | PathLike[str], formats: tuple[str, ...] = FIGURE_FORMATS) -> None:
    """Raises ValueError unless the file's name ends with one of the formats."""
    if Path(path).suffix.lower() not in formats:
        raise ValueError(f"{path}: the name must end with {', '.join(formats[:-1])} or {formats[-1]}")
