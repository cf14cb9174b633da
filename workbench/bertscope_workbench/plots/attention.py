"""Draws attention maps: matplotlib figures, and an interactive page that needs only a browser.

matplotlib is imported only when a figure is drawn; pages do without.
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path

from bertscope import AttentionMaps

from bertscope_workbench.plots.attention_head import draw_head, ends, token_map
from bertscope_workbench.plots.attention_page import Choice, attention_page, choose, heading, name_of, place_of
from bertscope_workbench.plots.figures import FIGURE_FORMATS, Figure, ThemedFigure, new_figure, require_format, write
from bertscope_workbench.plots.theme import TITLE_SIZE, Theme, fitted, theme_of

__all__ = ["plot_attention", "save_attention"]

PAGE_FORMAT = ".html"
COLUMNS = 4
"""Heads side by side when one layer is drawn."""
MAX_LABELS = 16
"""The most tokens named along an axis of a map that is one of many; of longer texts every second, third, ... is named."""
INCHES_PER_CHARACTER = 0.06
"""Approximate width of a character of a token's name beside one of many maps."""
MAX_PIXELS = 240
"""The most squares along a side of a map that is one of many; for longer texts a square shows the largest weight of several
tokens."""


def plot_attention(
    maps: AttentionMaps,
    layer: Choice = None,
    head: Choice = None,
    *,
    fixed_scale: bool = False,
    dark: bool = False,
    title: str | None = None,
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
    theme = theme_of(dark)
    layers, heads = choose(maps.layers, layer, "layer"), choose(maps.heads, head, "head")
    places = [(each_layer, each_head) for each_layer in layers for each_head in heads]
    title = heading(maps) if title is None else title
    if fixed_scale and maps.quantity != "weights":
        raise ValueError(f"{name_of(maps)} have no fixed scale; weights are 0 to 1")
    largest = 1.0 if fixed_scale else None
    if len(places) == 1:
        return draw_head(maps, *places[0], title, theme, largest)
    columns = len(heads) if len(layers) > 1 and maps.by_head else min(len(places), COLUMNS)
    row, column = ends(maps)
    title += f"\nrows: {row}, columns: {column}; {maps.provenance.model}"
    return _grid(maps, places, columns, title, theme, largest)


def save_attention(
    maps: AttentionMaps,
    path: str | PathLike[str],
    layer: Choice = None,
    head: Choice = None,
    *,
    fixed_scale: bool = False,
    dark: bool = False,
    title: str | None = None,
) -> None:
    """Writes a figure (.png, .svg, .pdf) or an interactive page (.html), by the suffix of the file's name.

    A character that no font of the machine has is a box in a figure, of which a warning tells; a page shows it. Raises
    ValueError for any other suffix and for a .html that is to be dark or have a fixed scale, and the errors of `plot_attention`
    and `attention_page`.
    """
    path = Path(path)
    require_attention_format(path, figure=dark or fixed_scale)
    if path.suffix.lower() == PAGE_FORMAT:
        path.write_text(attention_page(maps, layer, head, title=title), encoding="utf-8")
    else:
        figure = plot_attention(maps, layer, head, fixed_scale=fixed_scale, dark=dark, title=title)
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
    side = min(3.0, max(1.7, 0.16 * min(length, MAX_LABELS)))
    # Placed by hand: matplotlib's layout draws all maps repeatedly, which takes most of the time.
    longest = max(map(len, tokens[:: math.ceil(length / MAX_LABELS)]))
    names = min(3.0, 0.35 + INCHES_PER_CHARACTER * longest)
    width = columns * side + names + 1.5
    top = 0.55 + 0.2 * (1 + fitted(heading, width, TITLE_SIZE).count("\n"))
    height = rows * (side + 0.25) + names + top
    figure = new_figure(width, height, theme, solved=False)
    figure.subplots_adjust(names / width, names / height, 1 - 1.4 / width, 1 - top / height, 0.08, 0.3 / side)
    grid = figure.subplots(rows, columns, squeeze=False)
    largest = max(float(maps.head(*place).max()) for place in places) if largest is None else largest
    image = None
    for index, axes in enumerate(grid.flat):
        if index >= len(places):
            axes.set_visible(False)
            continue
        # Maps in a row or a column share the tokens' names: names on the outside leave room for the maps.
        named = index + columns >= len(places), index % columns == 0
        weights = maps.head(*places[index])
        image = token_map(axes, weights, largest, tokens, theme, labels=MAX_LABELS, pixels=MAX_PIXELS, named=named, fontsize=6)
        axes.set_title(place_of(maps, *places[index]), fontsize=8, pad=4)
    figure.set_heading(heading, y=1 - 0.12 / height)
    tall = min(0.6, 6 / height)
    place = figure.add_axes((1 - 1.1 / width, 0.5 - tall / 2, 0.14 / width, tall))
    figure.add_colorbar(image, None, name_of(maps), cax=place)
    return figure
