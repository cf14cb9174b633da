"""Makes figures, draws heat maps, and writes files: what all figures share.

matplotlib is imported only when a figure is made. Its names that annotations need are taken from here.
"""

from __future__ import annotations

import inspect
import io
import math
import warnings
from collections.abc import Callable, Sequence
from functools import update_wrapper
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from bertscope_workbench.plots.look import asked, asked_size, points
from bertscope_workbench.plots.theme import GLYPH, LIGHT, Theme, boxes_unmentioned, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure
    from matplotlib.image import AxesImage

    from bertscope_workbench.plots.themed_figure import ThemedFigure as ThemedFigure
else:
    Axes = Figure = ThemedFigure = object

Drawn = TypeVar("Drawn")
Options = ParamSpec("Options")

FIGURE_FORMATS = (".png", ".svg", ".pdf")
PADDING = 0.08
"""Inches around each part, so that the name of an axis does not touch the part beside it."""
BRIGHT = 0.5
"""From this share of a scale from 0 on, the ink in a cell is that of the page."""
DOTS_PER_INCH = 150
MAX_SIDE_DOTS = 3600
"""Larger figures have fewer dots in an inch, 80 at least: compressing 25 million dots takes seconds."""
MAP, CELL_LETTER, POINTS_PER_INCH = 0.72, 0.6, 72
"""The usual width of a map, of its figure's, and of a letter in a cell, of its height."""
NARROW = 0.62
"""From this share of their width on, panels are side by side."""
TEXT_AS_TEXT: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}
"""Letters are kept as text: in PDF as TrueType, for conferences take no Type 3 fonts, in SVG as elements."""
BOXES = "characters that no font of this machine has are boxes in the figure; a font such as Noto Sans CJK has most"


def new_figure(width: float, height: float, theme: Theme = LIGHT, *, solved: bool = True, rows: bool = False) -> ThemedFigure:
    """Returns an empty figure, inches, which a notebook shows; axes that are added to it have the theme's colours.

    Where the caller asked for another size, or for a place in a figure, it has that. `solved`: matplotlib computes the layout;
    otherwise the caller places the parts. `rows`: a narrower figure is as high.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from bertscope_workbench.plots.themed_figure import ThemedFigure, ThemedPart

    place = asked().get("ax")
    if place is not None:
        return ThemedPart(theme, place)  # type: ignore[return-value]  # has all that drawing needs
    size = asked_size(width, height, rows=rows)
    dots = min(DOTS_PER_INCH, max(80, int(MAX_SIDE_DOTS / max(size))))
    padding = PADDING * min(1, size[0] / width)
    layout = ConstrainedLayoutEngine(w_pad=padding, h_pad=padding) if solved else None
    return ThemedFigure(theme, figsize=size, dpi=dots, layout=layout)


def side_by_side(widths: Sequence[float], height: float, theme: Theme, **shared: Any) -> tuple[ThemedFigure, list[Axes]]:
    """Returns a figure with axes side by side, of these widths, inches, or one below the other where they would be narrow;
    `shared` goes to matplotlib."""
    if asked_size(sum(widths), height)[0] >= NARROW * sum(widths):
        figure = new_figure(sum(widths), height, theme)
        return figure, [*figure.subplots(1, len(widths), width_ratios=widths, squeeze=False, **shared)[0]]
    figure = new_figure(max(widths), height * len(widths), theme)
    return figure, [*figure.subplots(len(widths), squeeze=False, **shared)[:, 0]]


def heat_map(
    axes: Axes,
    values: Any,
    colors: Sequence[str],
    ends: tuple[float, float] = (0, 1),
    *,
    missing: str | None = None,
    origin: Literal["lower", "upper"] = "lower",
    **options: Any,
) -> AxesImage:
    """Draws [rows, columns] as cells, in colours between two ends, the first row below as papers have layers; `options` go to
    matplotlib."""
    from matplotlib.colors import LinearSegmentedColormap

    scale = LinearSegmentedColormap.from_list("bertscope", colors).with_extremes(bad=missing)
    return axes.imshow(values, scale, vmin=ends[0], vmax=ends[1], interpolation="nearest", origin=origin, **options)


def name_cells(axis: Axis, names: Sequence[object], most: int | None = None, **text: Any) -> None:
    """Names the cells along an axis: each, or every second, third, ... so that there are at most so many names."""
    step = 1 if most is None else max(1, math.ceil(len(names) / most))
    axis.set_ticks(range(0, len(names), step), [shown(str(name)) for name in names[::step]], **text)


def letters_in_cell(figure: ThemedFigure, columns: int) -> int:
    """Returns about how many letters a cell holds, of so many side by side in a figure with one heat map."""
    return int(MAP * figure.inches[0] / columns * POINTS_PER_INCH / (CELL_LETTER * points(7)))


def write_in_cell(axes: Axes, column: int, row: int, text: str, share: float, theme: Theme) -> None:
    """Writes into a cell of a scale from 0, in the ink that its colour lets be read; `share` is that of the scale's end."""
    ink = theme.page if share >= BRIGHT else theme.ink
    axes.text(column, row, text, ha="center", va="center", fontsize=points(7), color=ink)


def write(figure: Figure, path: Path) -> None:
    """Writes a figure by the suffix of the file's name; characters that no font has are boxes, of which one warning tells."""
    import matplotlib

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with matplotlib.rc_context(TEXT_AS_TEXT):
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
        raise ValueError(f"{path}: the name must end with {' or '.join(filter(None, (', '.join(formats[:-1]), formats[-1])))}")
