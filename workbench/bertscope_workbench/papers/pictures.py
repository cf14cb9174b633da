"""Draws the picture of a test as SVG whose colours the page gives, so that one drawing serves a light and a dark page.

matplotlib is imported only when a picture is drawn.
"""

import io
import re
from collections.abc import Sequence
from itertools import cycle

from bertscope_workbench.papers.pictures_data import Bars, Curves, Grid, Number, Picture
from bertscope_workbench.plots.figures import Axes, Figure, new_figure
from bertscope_workbench.plots.theme import LIGHT, boxes_unmentioned, shortened, shown

WIDTH = 5.6
"""Inches."""
ROW, CELL = 0.27, 0.26
"""Inches: the height of a bar, and the side of a cell."""
LONGEST = 44
"""Characters of a name."""
MARKERS = "os^vD"
COLORS = {LIGHT.lines[0]: "--first", LIGHT.lines[1]: "--second", "#2f7d5b": "--third", "#8a4f9e": "--fourth"}
"""Colours of lines, as drawn, and the page's names for them."""
PAGE_COLORS = COLORS | {LIGHT.ink: "--ink", LIGHT.faint: "--faint"}


def picture_svg(picture: Picture, name: str) -> str:
    """Returns a picture as an SVG element; `name` is unlike those of the page's other pictures, as ids of a page must be."""
    figure = new_figure(WIDTH, _height(picture))
    axes = figure.subplots()
    if isinstance(picture, Curves):
        _curves(axes, picture)
    elif isinstance(picture, Bars):
        _bars(axes, picture)
    else:
        _grid(axes, picture)
    return figure_svg(figure, name)


def figure_svg(figure: Figure, name: str) -> str:
    """Returns a figure that was drawn for a light page as such an element."""
    import matplotlib

    written = io.StringIO()
    with boxes_unmentioned(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return _inline(written.getvalue(), name)


def _height(picture: Picture) -> float:
    if isinstance(picture, Curves):
        return 3.1 + 0.2 * max(0, len(picture.lines) - 3)
    return 0.9 + (ROW if isinstance(picture, Bars) else CELL) * len(picture.rows)


def _curves(axes: Axes, picture: Curves) -> None:
    axes.grid(axis="y")
    for number, ((name, line), color) in enumerate(zip(picture.lines.items(), cycle(COLORS), strict=False)):
        style = "-" if number < len(COLORS) else "--"
        marker = MARKERS[number % len(MARKERS)]
        label = shown(shortened(name, LONGEST))
        axes.plot(picture.places, _values(line), style, color=color, marker=marker, markersize=4, label=label)
    if len(picture.places) <= 2 * 13:
        axes.set_xticks(list(picture.places), [f"{place:g}" for place in picture.places])
    axes.set_xlabel(shown(picture.across))
    axes.set_ylabel(shown(picture.unit))
    if len(picture.lines) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=LIGHT.ink)


def _bars(axes: Axes, picture: Bars) -> None:
    color = next(iter(COLORS))
    names = [*picture.rows]
    places = range(len(names))
    axes.grid(axis="x")
    values = [*picture.rows.values()]
    drawn = axes.barh(places, _values(values), height=0.62, color=color, alpha=0.75)
    if not picture.intervals:  # A bar of 0 can't be seen, and its number can.
        axes.bar_label(drawn, ["" if value is None else f"{value:.2g}" for value in values], padding=2, fontsize=7)
        axes.margins(x=0.08)
    for place, name in enumerate(names):
        if name in picture.intervals:
            axes.plot(picture.intervals[name], [place, place], color=LIGHT.ink, linewidth=1.2)
    axes.axvline(0, color=LIGHT.faint, linewidth=0.8)
    if picture.line is not None:
        axes.axvline(picture.line, color=[*COLORS][1], linestyle="--", linewidth=1.2)
    axes.set_yticks(places, [shown(shortened(name, LONGEST)) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(shown(picture.unit))


def _grid(axes: Axes, picture: Grid) -> None:
    from matplotlib.patches import Rectangle

    known = [value for row in picture.values for value in row if value is not None]
    largest = max((abs(value) for value in known), default=0.0) or 1.0
    positive, negative, *_ = COLORS
    for place, row in enumerate(picture.values):
        for column, value in enumerate(row):
            if value is not None:
                color = positive if value >= 0 else negative
                corner = (column - 0.46, place - 0.46)
                axes.add_patch(Rectangle(corner, 0.92, 0.92, color=color, alpha=abs(value) / largest, linewidth=0))
    axes.set_xlim(-0.6, len(picture.columns) - 0.4)
    axes.set_ylim(-0.6, len(picture.rows) - 0.4)
    step = 1 + (len(picture.columns) - 1) // 16
    rotation = 0 if max(map(len, picture.columns)) < 4 else 45
    columns = [shown(name) for name in picture.columns[::step]]
    axes.set_xticks(range(0, len(picture.columns), step), columns, rotation=rotation)
    axes.set_yticks(range(len(picture.rows)), [shown(shortened(name, LONGEST)) for name in picture.rows])
    axes.set_xlabel(shown(picture.across))
    axes.set_ylabel(shown(picture.down))
    below = ", orange below 0" if min(known, default=0.0) < 0 else ""
    axes.set_title(shown(f"{picture.unit}; the strongest colour: {largest:.3g}{below}"), fontsize=8)


def _values(values: Sequence[Number]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _inline(svg: str, name: str) -> str:
    """Returns the element alone, with the page's colours, and ids that no other picture has."""
    svg = svg[svg.index("<svg") :].replace("xlink:href", "href")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'id="([^"]*)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{name}-", svg)
    for color, variable in PAGE_COLORS.items():
        svg = svg.replace(color, f"var({variable})")
    svg = re.sub(r"(\d\.\d{2})\d+", r"\1", svg)
    opening, rest = svg.split(">", 1)
    return re.sub(r' (width|height)="[^"]*"', "", opening) + ">" + rest  # The page says how wide it is.
