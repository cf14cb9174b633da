"""Draws attention maps: matplotlib figures, and an interactive page that needs only a browser.

matplotlib is imported only when a figure is drawn; pages do without.
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import Unpack

from bertscope import AttentionMaps

from bertscope_workbench.plots.attention_head import draw_head, ends, token_map
from bertscope_workbench.plots.attention_page import Choice, attention_page, choose, heading, name_of, place_of
from bertscope_workbench.plots.figures import FIGURE_FORMATS, Figure, ThemedFigure, new_figure, require_format, write
from bertscope_workbench.plots.look import Look, asked_size, asked_title, looking, points
from bertscope_workbench.plots.theme import TITLE_SIZE, Theme, fitted, theme_of

__all__ = ["plot_attention", "save_attention"]

PAGE_FORMAT = ".html"
COLUMNS = 4
"""Heads side by side when one layer is drawn."""
MAX_LABELS = 16
"""The most tokens named along an axis of a map that is one of many; of longer texts every second, third, ... is named."""
INCHES_PER_CHARACTER = 0.06
"""Approximate width of a character of a token's name beside one of many maps."""
LEAST_LABELS = 5
"""With room for fewer tokens than these, none is named."""
LEAST_SIDE, TITLED, NAMED = 0.1, 0.3, 1.1
"""Inches: the least side of a map, and from which on each has a title, "4:10", and a whole one, "layer 4, head 10"."""
TOKEN_SIZE, POINTS_PER_INCH = 6, 72
MAX_PIXELS = 240
"""The most squares along a side of a map that is one of many; for longer texts a square shows the largest weight of several
tokens."""


@looking
def plot_attention(
    maps: AttentionMaps,
    layer: Choice = None,
    head: Choice = None,
    *,
    fixed_scale: bool = False,
    **look: Unpack[Look],
) -> Figure:
    """Draws heat maps of attention, tokens on the axes: each row attends to the columns; `dark` on a dark page.

    `layer` and `head` are numbers from 0, one or several, all unless given. One head is drawn large and, of up to 72 tokens,
    once more as lines between tokens, which are wider and more opaque for larger weights; lines from the second text of a pair
    are orange. The heads of one layer are side by side; several layers are a grid, a row for each layer and a column for each
    head. All maps of a figure share one colour scale, from 0 to their largest weight, or with `fixed_scale` to 1, so that
    figures compare. `maps.without_special_tokens()` leaves out what often gets most. `figure.savefig(path)` writes it.

    Raises KeyError for a layer or head that the maps don't hold, and ValueError for none at
    all, and for a fixed scale of quantities that are no weights.
    """
    theme = theme_of(look)
    layers, heads = choose(maps.layers, layer, "layer"), choose(maps.heads, head, "head")
    places = [(each_layer, each_head) for each_layer in layers for each_head in heads]
    if fixed_scale and maps.quantity != "weights":
        raise ValueError(f"{name_of(maps)} have no fixed scale; weights are 0 to 1")
    largest = 1.0 if fixed_scale else None
    if len(places) == 1:
        return draw_head(maps, *places[0], theme, largest)
    columns = len(heads) if len(layers) > 1 and maps.by_head else min(len(places), COLUMNS)
    row, column = ends(maps)
    title = asked_title(f"{heading(maps)}\nrows: {row}, columns: {column}; {maps.provenance.model}")
    return _grid(maps, places, columns, title, theme, largest)


def save_attention(
    maps: AttentionMaps,
    path: str | PathLike[str],
    layer: Choice = None,
    head: Choice = None,
    *,
    fixed_scale: bool = False,
    **look: Unpack[Look],
) -> None:
    """Writes a figure (.png, .svg, .pdf) or an interactive page (.html), by the suffix of the file's name.

    A character that no font of the machine has is a box in a figure, of which a warning tells; a page shows it. Raises
    ValueError for any other suffix and for a .html that is to be dark or have a fixed scale, and the errors of `plot_attention`
    and `attention_page`.
    """
    path = Path(path)
    require_attention_format(path, figure=fixed_scale or any(look.get(name) for name in ("dark", "figsize", "font_size", "ax")))
    if path.suffix.lower() == PAGE_FORMAT:
        path.write_text(attention_page(maps, layer, head, title=look.get("title")).html, encoding="utf-8")
    else:
        figure = plot_attention(maps, layer, head, fixed_scale=fixed_scale, **look)
        write(figure, path)


def require_attention_format(path: str | PathLike[str], *, figure: bool) -> None:
    """Raises ValueError unless the file's name ends with a format, that of a figure if it must be one."""
    require_format(path, FIGURE_FORMATS if figure else (*FIGURE_FORMATS, PAGE_FORMAT))


def _grid(
    maps: AttentionMaps, places: list[tuple[int, int]], columns: int, heading: str, theme: Theme, largest: float | None
) -> ThemedFigure:
    rows = math.ceil(len(places) / columns)
    tokens = [token.text for token in maps.tokens]
    length = len(tokens)
    side, scale = min(3.0, max(1.7, 0.16 * min(length, MAX_LABELS))), points(10) / 10
    # Placed by hand: matplotlib's layout draws all maps repeatedly, which takes most of the time.
    longest = max(map(len, tokens[:: math.ceil(length / MAX_LABELS)]))
    names = min(3.0, 0.35 + INCHES_PER_CHARACTER * longest) * scale
    width, limit = asked_size(columns * side + names + 1.5 * scale, math.inf)
    side = max(LEAST_SIDE, (width - names - 1.5 * scale) / columns)
    labels = min(MAX_LABELS, int(side * POINTS_PER_INCH / points(TOKEN_SIZE) / 1.1))
    if labels < min(length, LEAST_LABELS):  # No room: only layers and heads are named.
        labels, names = 0, 0.4 * scale
        side = max(LEAST_SIDE, (width - names - 1.2 * scale) / columns)
    top = 0.35 * scale + (0.2 * scale * (2 + fitted(heading, width, points(TITLE_SIZE)).count("\n")) if heading else 0)
    one_layer = len({layer for layer, _ in places}) == 1
    gap = 0.25 * scale if side >= TITLED or one_layer else 0.08
    height = min(rows * (side + gap) + names + top, limit)
    figure = new_figure(width, height, theme, solved=False)
    figure.subplots_adjust(names / width, names / height, 1 - 1.2 * scale / width, 1 - top / height, 0.08, gap / side)
    grid = figure.subplots(rows, columns, squeeze=False)
    largest = max(float(maps.head(*place).max()) for place in places) if largest is None else largest
    image = None
    for index, axes in enumerate(grid.flat):
        if index >= len(places):
            axes.set_visible(False)
            continue
        # Maps in a row or a column share the tokens' names: names on the outside leave room for the maps.
        named = index + columns >= len(places), index % columns == 0
        shown_names = named if labels else (False, False)
        weights = maps.head(*places[index])
        image = token_map(
            axes,
            weights,
            largest,
            tokens,
            theme,
            labels=labels or 1,
            pixels=MAX_PIXELS,
            named=shown_names,
            fontsize=points(TOKEN_SIZE),
        )
        if side >= TITLED or one_layer:
            name = place_of(maps, *places[index]) if side >= NAMED else "{}:{}".format(*places[index])
            axes.set_title(name, fontsize=points(8), pad=4)
        elif named[0] or named[1]:
            axes.set_xlabel(str(places[index][1]) if named[0] else "")
            axes.set_ylabel(str(places[index][0]) if named[1] else "")
    figure.set_heading(heading, y=1 - 0.12 / height)
    tall = min(0.6, 6 / height)
    place = figure.add_axes((1 - 1.05 * scale / width, 0.5 - tall / 2, 0.14 * scale / width, tall))
    figure.add_colorbar(image, None, name_of(maps), cax=place)
    return figure
