"""Figures as text: what is drawn where, in which colour, and with which words."""

from collections.abc import Callable, Iterable
from typing import Any

from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator

Numbers = Callable[[Any], str]


def described_figure(figure: Any, numbers: Numbers) -> str:
    """Returns the texts of a figure, and what is drawn on each of its axes."""
    return "\n".join(_figure(figure, numbers))


def _figure(figure: Any, numbers: Numbers) -> Iterable[str]:
    size = f"{numbers(figure.get_size_inches())} inches, " if hasattr(figure, "get_size_inches") else ""
    yield f"figure: {size}page {color(figure.get_facecolor())}"
    for name, text in (("title", figure._suptitle), ("below", figure._supxlabel), ("beside", figure._supylabel)):
        if text is not None and text.get_text():
            yield f"{name}: {_text(text, numbers)}"
    for legend in figure.legends:
        yield from _legend(legend, numbers)
    for axes in figure.axes:
        if axes.get_visible():
            yield from (line if place == 0 else f"  {line}" for place, line in enumerate(_axes(axes, numbers)))
    for part in figure.subfigs:
        yield from _figure(part, numbers)


def _axes(axes: Any, numbers: Numbers) -> Iterable[str]:
    yield f"axes {axes.get_label()}".rstrip()
    for name, text in (("title", axes.title), ("x", axes.xaxis.label), ("y", axes.yaxis.label)):
        if text.get_text():
            yield f"{name}: {_text(text, numbers)}"
    if axes.get_label() == "<colorbar>":
        return
    scales = f"{axes.get_xscale()} and {axes.get_yscale()}"
    yield f"limits: {numbers(axes.get_xlim())} and {numbers(axes.get_ylim())}, {scales}"
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        for kind, locator in (("ticks", axis.get_major_locator()), ("minor ticks", axis.get_minor_locator())):
            if isinstance(locator, FixedLocator):
                minor = kind == "minor ticks"
                labels = [label.get_text() for label in axis.get_ticklabels(minor=minor)]
                labels = [label for label in labels if label]
                yield f"{name} {kind}: {numbers(locator.locs)}{f' {labels}' if labels else ''}"
    if axes.get_legend() is not None:
        yield from _legend(axes.get_legend(), numbers)
    for image in axes.images:
        alpha = "" if image.get_alpha() is None else f", alpha {numbers(image.get_alpha())}"
        values = image.get_array()
        values = values.filled(float("nan")) if hasattr(values, "filled") else values
        kind = f"{image.cmap.name}, {numbers(image.get_clim())}, {image.origin}{alpha}"
        yield f"image {list(values.shape)}, {kind}: {numbers(values)}"
    for line in axes.lines:
        style = f"{color(line.get_color())} {line.get_linestyle()!r} {numbers(line.get_linewidth())}"
        dots = f" {line.get_marker()!r} {numbers(line.get_markersize())} {_maybe(line.get_markerfacecolor())}"
        label = "" if line.get_label().startswith("_") else f" {line.get_label()!r}"
        marks = "" if line.get_marker() in (None, "None", "") else dots
        yield f"line{label} {style}{marks}: {numbers(line.get_xdata())}; {numbers(line.get_ydata())}"
    for patch in axes.patches:
        place = [getattr(patch, f"get_{name}")() for name in ("x", "y", "width", "height") if hasattr(patch, f"get_{name}")]
        where = numbers(place) if place else numbers(patch.get_path().vertices)
        edge = f", edge {_maybe(patch.get_edgecolor())} {patch.get_linestyle()!r}"
        yield f"{type(patch).__name__} {_maybe(patch.get_facecolor())}{edge}: {where}"
    for drawn in axes.collections:
        colors = f"{[color(each) for each in drawn.get_facecolor()]}, edge {[color(each) for each in drawn.get_edgecolor()]}"
        if hasattr(drawn, "get_segments"):
            colors, where = f"{[color(each) for each in drawn.get_color()]}", numbers([*map(_flat, drawn.get_segments())])
            colors += f" {numbers(drawn.get_linewidths())}"
        elif len(drawn.get_offsets()) and type(drawn).__name__ == "PathCollection":
            where = f"{numbers(drawn.get_offsets())}; sizes {numbers(drawn.get_sizes())}"
        else:
            where = numbers([number for path in drawn.get_paths() for number in path.vertices.ravel()])
        yield f"{type(drawn).__name__} {colors}: {where}"
    for text in axes.texts:
        yield f"text at {numbers(text.get_position())}: {_text(text, numbers)}"


def _flat(segment: Any) -> Any:
    return [number for point in segment for number in point]


def _legend(legend: Any, numbers: Numbers) -> Iterable[str]:
    frame = "framed" if legend.get_frame_on() else "no frame"
    yield f"legend, {frame}: {' | '.join(text.get_text() for text in legend.get_texts())}"


def _text(text: Any, numbers: Numbers) -> str:
    return f"{text.get_text()!r} {color(text.get_color())} {numbers(text.get_fontsize())}"


def _maybe(value: Any) -> str:
    return value if isinstance(value, str) and value == "none" else color(value)


def color(value: Any) -> str:
    """Returns a colour as #rrggbb, with its opacity where it is not whole."""
    found = to_hex(value, keep_alpha=True)
    return found[:7] if found.endswith("ff") else found
