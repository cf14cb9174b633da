"""Prints a sweep in the terminal: the measured effects, the largest ones, and a map of all heads."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from bertscope import CurvePoint, MetricEffect, SweepStart, SweepTable
from bertscope.questions.ablation.effects import BETTER, UNITS
from bertscope.values.bootstrap import MIN_ITEMS
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import count, printable, shown, table, titled

MIN_NAMES, MAX_NAMES = 12, 40
"""Characters of the heads' names at a point of a curve."""
NO_INTERVAL = {
    "too_few_items": "too few items",
    "too_few_differ": "too few moved",
    "too_few_resamples": "too few resamples",
}
"""The text in place of an interval."""
COLUMN_GAP = 3
"""Characters between two columns of a table."""


def print_sweep(screen: Console, sweep: SweepTable, metric: str, top: int) -> None:
    """Prints the baseline, the counts, the table and, for a sweep over heads, the map."""
    print_start(screen, sweep)
    if not sweep.complete:
        left = f"CUT SHORT: {sweep.count} of {sweep.start.total} are measured, and what follows is of these alone"
        screen.print(Text(f"{left} (").append_text(printable(sweep.interrupted or "")).append(")"), style="bold yellow")
    for line in without_interval(sweep, metric):
        screen.print(line, style="yellow")
    if sweep.points:
        screen.print(points_table(screen, sweep, metric, top))
    else:
        screen.print(verdict(sweep, metric))
        if top and sweep.effects:
            screen.print(effects_table(sweep, metric, top))
        if sweep.scope == "heads" and sweep.effects:
            screen.print(heat_map(sweep, metric, screen.width))
    summary = sweep.summary
    passes = f", {count(summary.layer_passes)} layer passes ({count(summary.full_layer_passes)} without shared layers)"
    earlier = f"; {sweep.resumed} of {sweep.count} came from an earlier run" if sweep.resumed else ""
    screen.print(f"{summary.seconds:.1f} s{passes if sweep.complete else ''}{earlier}", style="dim")


def hard_to_show(start: SweepStart, metric: str | None) -> list[str]:
    """Returns what to know before a long sweep: that its metric is at its ceiling, or that it will have no intervals."""
    lines = []
    chosen = start.metric(metric)
    if start.at_ceiling(chosen):
        others = [name for name in start.baseline if not start.at_ceiling(name)]
        more = f"; --metric {others[0].replace('_', '-')} moves both ways" if others else ""
        lines.append(f"{label(chosen)} is 1 without any change, and can only fall{more}")
    if start.items < MIN_ITEMS:
        lines.append(f"{start.items} items are too few for intervals: give {MIN_ITEMS} or more")
    return lines


def print_start(screen: Console, sweep: SweepTable) -> None:
    """Prints the change, the items, and the baseline."""
    start = sweep.start
    screen.print(Text(f"{sweep.what}, {start.items} items, ").append_text(printable(sweep.provenance.model)), style="bold")
    if any(metric in BETTER for metric in start.baseline):
        scores = (f"{metric.replace('_', ' ')} {score:.4f} {UNITS.get(metric, '')}" for metric, score in start.baseline.items())
        screen.print(f"baseline: {', '.join(map(str.rstrip, scores))}")
    print_left_out(screen, start.skipped_items)
    if start.truncated_texts:
        screen.print(f"texts that were cut: {start.truncated_texts}", style="yellow")


def print_left_out(screen: Console, prompts: int) -> None:
    """Prints how many prompts the server left out, if it did."""
    if prompts:
        screen.print(f"prompts left out, having no answer of a single piece: {prompts}", style="yellow")


def verdict(sweep: SweepTable, metric: str) -> Text:
    """Returns how many changes helped, hurt, or can't be distinguished from no effect."""
    if metric not in BETTER:
        return Text(f"a {metric} is neither better nor worse: the larger, the more has changed")
    effects = [effect.metrics[metric] for effect in sweep.effects]
    helped, hurt = sum(effect.helped for effect in effects), sum(effect.hurt for effect in effects)
    result = Text(f"of {len(effects)} changes, by the intervals of their {metric.replace('_', ' ')}: ")
    result.append(f"{helped} helped", style="green").append(", ").append(f"{hurt} hurt", style="red")
    # So many intervals of changes that do nothing miss 0 on each side.
    result.append(f" (by chance {len(effects) * (1 - sweep.confidence) / 2:.1f} each)")
    result.append(f", {len(effects) - helped - hurt} can't be told from no effect")
    finer = next((name for name in sweep.start.baseline if name in UNITS), metric)
    if not helped and not hurt and metric not in UNITS and finer != metric:
        result.append(f"; --metric {finer.replace('_', '-')} is finer")
    return result


def without_interval(sweep: SweepTable, metric: str) -> list[str]:
    """Returns a line for each reason why changes have no interval, with what to do."""
    moved = [event.metrics[metric] for event in sweep.effects] + [event.metrics[metric] for event in sweep.points]
    found = Counter(effect.no_interval for effect in moved)
    items, resamples = sweep.start.items, f"--resamples {sweep.resamples}"
    few = f"of {items} items too few moved to tell the spread, so measure more"
    needed = math.ceil(2 / (1 - sweep.confidence) - 1e-6)
    lines = {
        "too_few_items": f"no intervals: {items} items are too few for any; measure 5 or more",
        "too_few_differ": f"changes without an interval: {found['too_few_differ']}; {few}",
        "too_few_resamples": f"no intervals: {resamples} are too few for this confidence; use {needed} or more",
    }
    return [line for reason, line in lines.items() if found[reason]]


def effects_table(sweep: SweepTable, metric: str, top: int) -> Group:
    """Returns the effects on one metric that help most and hurt most, `top` rows in all."""
    by = [metric, *(name for name in sweep.start.baseline if name != metric)]  # The others order what is equal by the first.
    ordered = sorted(sweep.effects, key=lambda effect: [-effect.metrics[name].benefit for name in by])
    both = metric in BETTER
    first = (top + 1) // 2 if both else 0
    shown = ordered if len(ordered) <= top else [*ordered[:first], *ordered[len(ordered) - (top - first) :]]
    by_layer = sweep.scope == "layers"
    decimals = _decimals([effect.metrics[metric] for effect in shown])
    rows = [
        [effect.layer if by_layer else effect.name, *_cells(effect.metrics[metric], decimals), effect.metrics[metric].mcnemar_p]
        for effect in (shown if both else shown[::-1])
    ]
    if both and len(shown) < len(ordered):
        rows.insert(first, [Text(f"... {len(ordered) - len(shown)} more", style="dim"), *[None] * 4])
    columns = ["layer#" if by_layer else "heads", f"{label(metric)}#.{decimals}f", "difference#", interval_name(sweep), "p#.2g"]
    result = table(columns, rows)
    title = "what helps most, and what hurts most" if both else "what changes most"
    if len(shown) < len(ordered):
        title += ", chosen on the items it is measured on: on others it does less"
    return titled(title, result)


def interval_name(sweep: SweepTable) -> str:
    """Returns "95 % interval"."""
    return f"{100 * sweep.confidence:.4g} % interval"


def points_table(screen: Console, sweep: SweepTable, metric: str, top: int) -> Group:
    """Returns a curve: `top` of its points, the first and the last among them; names of heads if the screen has room."""
    places = np.unique(np.linspace(0, len(sweep.points) - 1, max(2, top)).round().astype(int))
    points = [sweep.points[place] for place in places]
    decimals = _decimals([point.metrics[metric] for point in sweep.points])
    columns = ["removed#", "share#.0%", f"{label(metric)}#.{decimals}f", "difference#", interval_name(sweep)]
    rows = [[point.removed, point.share_removed, *_cells(point.metrics[metric], decimals)] for point in points]
    room = screen.width - screen.measure(table(columns, rows)).maximum - COLUMN_GAP
    if room >= MIN_NAMES:
        columns.append("last removed")
        rows = [[*row, _names(point, min(room, MAX_NAMES))] for row, point in zip(rows, points, strict=True)]
    left = len(sweep.points) - len(places)
    return titled(
        "the curve, on the items that the order is chosen on"
        + (f" (every point is in --output and --json, {left} are not shown)" if left else ""),
        table(columns, rows),
    )


def heat_map(sweep: SweepTable, metric: str, width: int) -> Group:
    """Returns the effect of changing each head, a row for each layer: numbers if the screen has room, else signs."""
    values = sweep.matrix(metric)
    largest = float(np.nanmax(np.abs(values)))
    # Two digits of the largest difference, whatever its size.
    factor = 10.0 ** (1 - math.floor(math.log10(largest))) if largest else 1.0
    effects = {(effect.layer, effect.head): effect.metrics[metric] for effect in sweep.effects}
    layers, heads = values.shape
    rows = [[_rounded(effects.get((layer, head)), factor) for head in range(heads)] for layer in range(layers)]
    wide = max(cell.cell_len for row in rows for cell in row)
    title = label(metric) if metric not in BETTER else f"difference in {label(metric)}"
    if len(f"layer {layers}") + heads * (max(wide, len(str(heads))) + 1) <= width:
        title += f", x {factor:g}" + (" (*: the interval excludes 0)" if metric in BETTER else "")
    else:
        rows = [[_sign(effects.get((layer, head)), largest) for head in range(heads)] for layer in range(layers)]
        signs = "+ better, - worse, · undecided" if metric in BETTER else "9 is the largest"
        title += f" ({signs})"
    return titled(f"each head: {title}", layer_grid(rows))


def layer_grid(rows: Sequence[Sequence[Text]], layers: Sequence[int] | None = None) -> Table:
    """Returns cells of all heads, the last layer on top as papers have it; `layers` are those of the rows, all unless given."""
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    grid.add_column("")
    width = max(cell.cell_len for row in rows for cell in row)
    for head in range(len(rows[0])):
        grid.add_column(str(head), justify="right", no_wrap=True, min_width=width)
    for layer, row in reversed(list(zip(range(len(rows)) if layers is None else layers, rows, strict=True))):
        grid.add_row(Text(f"layer {layer}", style="dim"), *row)
    return grid


def label(metric: str) -> str:
    """Returns the metric in words, with its unit."""
    return metric.replace("_", " ") + (f", {UNITS[metric]}" if metric in UNITS else "")


def _decimals(effects: Sequence[MetricEffect]) -> int:
    """Returns the number of decimals that show two digits of the largest difference; at least 4."""
    largest = max(abs(effect.difference) for effect in effects)
    return min(12, max(4, 2 - math.floor(math.log10(largest)))) if largest else 4


def _cells(effect: MetricEffect, decimals: int) -> list[Any]:
    """Returns the score, the difference of a metric that has a better side, and its interval."""
    signed = f"+.{decimals}f"
    interval = shown((effect.low, effect.high), signed) or NO_INTERVAL.get(effect.no_interval or "", "")
    difference = Text(f"{effect.difference:{signed}}", style=_style(effect)) if effect.metric in BETTER else None
    return [effect.score, difference, interval]


def _style(effect: MetricEffect) -> str:
    return "green" if effect.helped else "red" if effect.hurt else ""


def _rounded(effect: MetricEffect | None, factor: float) -> Text:
    if effect is None:
        return Text("")
    scaled = round(effect.difference * factor)
    if effect.metric not in BETTER:
        return Text(str(scaled))
    star = "*" if effect.decided else ""
    return Text(f"{scaled:+d}{star}" if scaled else f"0{star}", style=_style(effect) or "dim")


def _sign(effect: MetricEffect | None, largest: float) -> Text:
    if effect is None:
        return Text("")
    if effect.metric not in BETTER:
        return Text(str(round(9 * effect.difference / largest)) if largest else "0")
    return Text("+" if effect.helped else "-" if effect.hurt else "·", style=_style(effect) or "dim")


def _names(point: CurvePoint, room: int) -> str:
    """Returns the sets that were added, the last ones if there is no room for all."""
    names = " ".join(point.names)
    if len(names) <= room:
        return names
    _, _, last = names[-(room - len("... ")) - 1 :].partition(" ")
    return f"... {last}"
