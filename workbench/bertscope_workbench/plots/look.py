"""Defines what a caller asks of any figure: its page, title, size, letters, and its place in a figure of the caller's.

It does without matplotlib.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Options = ParamSpec("Options")


class Look(TypedDict, total=False):
    """How a figure looks. Each field may be left out."""

    dark: bool
    """True for a dark page."""
    title: str | None
    """Written above instead of the figure's own title; "" is none."""
    figsize: tuple[float, float | None] | None
    """Width and height, inches; a height of None is the one that suits the width."""
    font_size: float | None
    """Points, of matplotlib's `font.size`, rcParams' unless given: titles have 1.1 of it, names of axes 0.9, of ticks 0.8."""
    ax: Axes | None
    """Axes in a grid of the caller's figure, in whose place the figure is drawn, as a subfigure; the axes are removed, and the
    caller's figure gets a constrained layout unless it has a layout."""


OPTIONS = {
    "dark": ("bool", False),
    "title": ("str | None", None),
    "figsize": ("tuple[float, float | None] | None", None),
    "font_size": ("float | None", None),
    "ax": ("Axes | None", None),
}
"""The fields in signatures: annotations and defaults."""
_asked: ContextVar[Look] = ContextVar("asked")


def looking(plot: Callable[Options, Figure]) -> Callable[Options, Figure]:
    """Returns a function that draws with the `Look` among its options, which its signature names one by one."""

    def drawn(*arguments: Options.args, **options: Options.kwargs) -> Figure:
        named.bind(*arguments, **options)  # An option that there is not raises TypeError.
        with _looks(options) as found:
            figure = plot(*arguments, **options)
            if found.get("figsize") or found.get("font_size") or found.get("ax"):
                figure.wrap_labels()  # type: ignore[attr-defined]  # all are themed
            return figure

    known = inspect.signature(plot)
    own = [each for each in known.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    fields = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in OPTIONS.items()
    ]
    named = known.replace(parameters=[*own, *fields])
    update_wrapper(drawn, plot).__signature__ = named  # type: ignore[attr-defined]
    return drawn


def asked() -> Look:
    """Returns how the figure that is being drawn shall look."""
    return _asked.get(Look())


def asked_title(default: str) -> str:
    """Returns the title that the caller gave, else the default."""
    title = asked().get("title")
    return default if title is None else title


def asked_size(width: float, height: float, *, rows: bool = False) -> tuple[float, float]:
    """Returns the size of a figure, inches, which would be `width` by `height` had the caller not asked for another one.

    A figure with a row for each of its things keeps its height (`rows`), others keep their shape.
    """
    ax, size = asked().get("ax"), asked().get("figsize")
    if ax is not None:
        box = ax.get_window_extent()
        return box.width / ax.figure.dpi, box.height / ax.figure.dpi
    if size is None:
        return width, height
    suitable = height if rows else height * size[0] / width
    return size[0], suitable if size[1] is None else size[1]


def points(size: float) -> float:
    """Returns the size of letters, points, which are `size` where matplotlib's `font.size` is 10."""
    from matplotlib import rcParams

    return size * float(rcParams["font.size"]) / 10


@contextmanager
def _looks(options: Any) -> Iterator[Look]:
    if (
        unknown := {*options} & {"ax", "figsize"}
        if options.get("ax") is not None and options.get("figsize") is not None
        else None
    ):
        raise ValueError(f"give {' or '.join(sorted(unknown))}, not both: axes have a size")
    found = Look(**{name: options[name] for name in OPTIONS if name in options})  # type: ignore[typeddict-item]
    token = _asked.set(found)
    try:
        size = found.get("font_size")
        if size is None:
            yield found
        else:
            from matplotlib import rc_context

            with rc_context({"font.size": size}):
                yield found
    finally:
        _asked.reset(token)
