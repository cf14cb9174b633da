"""Draws descriptions of attention: the classes of maps by layer, statistics of all heads, and how heads differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, get_args

import numpy as np
from bertscope import AttentionDescription, Picture
from bertscope.questions.attention.sums import CLUSTERS, PerHead

from bertscope_workbench.plots.figures import Axes, Figure, ThemedFigure, heat_map, name_cells, new_figure, saving, side_by_side
from bertscope_workbench.plots.look import Look, asked_size, looking, points
from bertscope_workbench.plots.theme import Theme, fitted, shown, theme_of

__all__ = ["plot_description", "save_description"]

PATTERN_COLORS = ("#2f7fc1", "#dd6b20", "#8a63b8", "#2f9e6e", "#98a3ae")
"""One for each class, in the order of the contract; the last one is the grey of what has no pattern."""
CLUSTER_COLORS = (
    "#2f7fc1", "#dd6b20", "#2f9e6e", "#c2475f", "#8a63b8", "#b08a1e", "#3aa6a6", "#d06fb0", "#6b7f2a", "#7a8794",
)  # fmt: skip
UNITS = {"entropy": "nats", "first_special_entropy": "nats", "distance": "tokens"}
"""Units of statistics; the others are shares from 0 to 1."""
GRID_COLUMNS = 5
MAX_PANEL, MIN_CELL, MAX_CELL = 2.3, 0.1, 0.19
"""Inches: the longer side of a panel if its cells can be so small, and the sides of a cell."""
NARROW = 0.45
"""The least width of a panel in a figure that shall be narrower, of its usual one."""
MAX_TICKS = 8
"""The most layers or heads named along an axis of a small panel."""
MARKERS = "os^DvPXp<>"


@looking
def plot_description(description: AttentionDescription, picture: Picture = "patterns", **look: Unpack[Look]) -> Figure:
    """Draws a description of attention; `dark` on a dark page.

    "patterns" stacks the classes of maps in each layer (Kovaleva et al. 2019, figure 2). "statistics" has a heat map for each
    statistic, a row for each layer, the last one on top, and a column for each head. "clusters" places heads by their distances
    (Clark et al. 2019, figure 6), coloured by cluster and by layer; it needs a description with `head_distances`. Raises
    ValueError without them or for another picture.
    """
    require_picture(description, picture)
    theme = theme_of(look)
    drawn = {"patterns": _patterns, "statistics": _statistics, "clusters": _clusters}[picture](description, theme)
    asked = f"{description.provenance.model}, {description.texts} texts, {description.tokens} tokens"
    drawn.set_heading(f"{HEADINGS[picture]}\n{asked}")
    return drawn


save_description = saving(plot_description)


def require_picture(description: AttentionDescription, picture: str) -> None:
    """Raises ValueError for a picture that there is not, or that the description has no numbers for."""
    if picture not in get_args(Picture):
        raise ValueError(f"picture must be one of {', '.join(get_args(Picture))}, not {picture!r}")
    if picture == "clusters" and description.head_distances is None:
        raise ValueError("a picture of clusters needs distances between heads: describe with head_distances=True")


HEADINGS = {
    "patterns": "classes of attention maps, by layer",
    "statistics": "attention of each head, means over texts",
    "clusters": "heads by the Jensen-Shannon distances of their attention, classical scaling",
}


def _patterns(description: AttentionDescription, theme: Theme) -> ThemedFigure:
    layers = len(description.layers)
    figure = new_figure(max(6.4, 2.6 + 0.36 * layers), 4.4, theme)
    axes = figure.subplots()
    # Of the maps that have a class: those of heads that were pruned away have none.
    counts = np.stack([pattern.texts.sum(1) for pattern in description.patterns.values()]).astype(np.float64)
    shares = 100 * counts / np.maximum(counts.sum(0), 1)
    places, bottom = np.arange(layers), np.zeros(layers)
    for index, (name, share) in enumerate(zip(description.patterns, shares, strict=True)):
        color = PATTERN_COLORS[index % len(PATTERN_COLORS)]
        label = name.replace("_", " + ")
        axes.bar(places, share, bottom=bottom, width=0.82, color=color, edgecolor=theme.page, linewidth=0.6, label=label)
        bottom += share
    name_cells(axes.xaxis, description.layers)
    axes.set_xlim(-0.6, layers - 0.4)
    axes.set_ylim(0, 100)
    axes.set_xlabel("layer")
    axes.set_ylabel("maps of its heads, %")
    axes.spines[["top", "right", "left"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()  # The first class is at the bottom of the bars and of the list.
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=points(8), labelcolor=theme.ink, **place)
    return figure


def _statistics(description: AttentionDescription, theme: Theme) -> ThemedFigure:
    units = {name: f" ({UNITS[name]})" if name in UNITS else "" for name in description.statistics}
    panels = {name.replace("_", " ") + unit: description.mean(name) for name, unit in units.items()}
    return panel_grid(panels, description.layers, theme)


def panel_grid(panels: Mapping[str, PerHead], layers: Sequence[int], theme: Theme) -> ThemedFigure:
    """Draws [layers, heads] of each name as a heat map, each with a scale of its own."""
    heads = next(iter(panels.values())).shape[1]
    cell = min(MAX_CELL, max(MIN_CELL, MAX_PANEL / max(len(layers), heads)))
    columns = min(GRID_COLUMNS, len(panels))
    each = cell * heads + 1.05
    width = asked_size(max(4.6, columns * each), 1)[0]
    columns = max(1, min(columns, round(width / (NARROW * each))))
    rows = math.ceil(len(panels) / columns)
    shrunk = min(1, width / (columns * each))
    room = width / columns * (1 if shrunk == 1 else 0.75)  # Beside a shrunk panel the colour bar is taller than the title.
    figure = new_figure(width, rows * (shrunk * cell * len(layers) + 0.72) + 0.7, theme)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for index, (axes, name) in enumerate(zip(grid.flat, panels, strict=False)):
        image = _heat_map(axes, panels[name], layers, theme)
        axes.set_title(fitted(shown(name), room, points(9)), fontsize=points(9), pad=4)
        bar = figure.add_colorbar(image, axes, "", shrink=0.9, aspect=18, pad=0.03)
        bar.ax.tick_params(labelsize=points(7), length=2, pad=2)
        bar.locator = _few_ticks()
        bar.update_ticks()
        if index % columns == 0:
            axes.set_ylabel("layer")
        if index + columns >= len(panels):
            axes.set_xlabel("head")
    return figure


def _heat_map(axes: Axes, values: PerHead, layers: Sequence[int], theme: Theme) -> Any:
    largest = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    image = heat_map(axes, values, theme.none_to_much, (0, largest or 1), missing=theme.faint)
    for axis, labels in ((axes.xaxis, range(values.shape[1])), (axes.yaxis, layers)):
        name_cells(axis, labels, MAX_TICKS)
    axes.tick_params(labelsize=points(7), pad=2)
    return image


def _clusters(description: AttentionDescription, theme: Theme) -> ThemedFigure:
    from matplotlib.colors import LinearSegmentedColormap

    distances = description.head_distances
    assert distances is not None  # noqa: S101  # `require_picture` has seen to it
    places = distances.coordinates()
    clusters = distances.clusters(min(CLUSTERS, len(distances.heads)))
    patterns = description.majority().reshape(-1)
    figure, (left, right) = side_by_side((5.3, 5.3), 6.0, theme)
    for number in range(int(clusters.max()) + 1):
        chosen = clusters == number
        color, marker = CLUSTER_COLORS[number % len(CLUSTER_COLORS)], MARKERS[number % len(MARKERS)]
        name = _cluster_name(int(chosen.sum()), patterns[chosen])
        left.scatter(
            places[chosen, 0],
            places[chosen, 1],
            s=30,
            color=color,
            marker=marker,
            edgecolor=theme.page,
            linewidth=0.4,
            label=name,
        )
    layers = np.array([layer for layer, _ in distances.heads])
    scale = LinearSegmentedColormap.from_list("bertscope", LAYER_COLORS)
    image = right.scatter(places[:, 0], places[:, 1], s=30, c=layers, cmap=scale, edgecolor=theme.page, linewidth=0.4)
    for axes, heading in ((left, "clusters, by average linkage"), (right, "layers")):
        axes.set_title(heading, fontsize=points(9))
        axes.set_aspect("equal", adjustable="box")
        axes.grid()
    figure.add_legend(left, 3)
    figure.add_colorbar(image, right, "layer")
    return figure


LAYER_COLORS = ("#f2c14e", "#e0773c", "#b8405e", "#7b4a9c", "#3f6fb5", "#3aa6a6")


def _cluster_name(heads: int, patterns: Any) -> str:
    """Returns the number of heads of a cluster, and the class that most of their maps are of."""
    ((pattern, count),) = Counter(patterns.tolist()).most_common(1)
    share = "" if heads == 1 else "all " if count == heads else f"{count} "
    mostly = f", {share}{pattern.replace('_', ' + ')}" if pattern else ""
    return f"{heads} head{'' if heads == 1 else 's'}{mostly}"


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=4)
