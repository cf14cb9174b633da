"""Prints a trace: layers by positions with the strongest places marked, or the strongest paths, heads or neurons."""

import math
from collections.abc import Callable
from operator import attrgetter

import numpy as np
from bertscope import Trace
from bertscope.questions.ablation.traces import SITES, heading
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import count, fits, printable, table, titled
from bertscope_workbench.plots.trace_html import is_map, place_name, shown_what, strongest

FAINT = 0.05
"""Numbers below this share of the largest one are dim."""
MAX_WORD = 16
MARKED = 3
"""The strongest places of a map, which are marked."""


def print_trace(screen: Console, found: Trace, top: int) -> None:
    """Prints the values without changes, a map for each site or a list, and the cost."""
    what = shown_what(found)
    first, *others = heading(found)
    screen.print(printable(first), style="bold", soft_wrap=True)
    screen.print(printable(": ".join(others)), soft_wrap=True)
    if not found.complete:
        screen.print(
            Text("CUT SHORT: what follows is of these pairs alone (").append_text(printable(found.interrupted or "")) + ")"
        )
    if what == "difference" and found.direction != "change":
        least = "by 0.05 nats, or on other scales by 5 % of the larger value"
        screen.print(f"the two runs of no pair differ enough for a share ({least}): differences", style="yellow")
    if is_map(found):
        for site in found.sites:
            screen.print(_map(screen, found, site, what))
    if top and (len(found.pairs) > 1 or not is_map(found)):
        screen.print(_list(found, what, top))
    passes = f"{count(found.layer_passes)} layer passes ({count(found.full_layer_passes)} without shared layers)"
    screen.print(f"{found.seconds:.1f} s, {passes}", style="dim")


def _map(screen: Console, found: Trace, site: str, what: str) -> Group:
    """Returns positions down and layers across, which fits any screen."""
    values = found.matrix(what, site)
    most = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    known = np.where(np.isnan(values), 0.0, np.abs(values))
    marked = set(np.argsort(-known, axis=None, kind="stable")[:MARKED].tolist())
    unit = "share of the other run's answer" if what == "recovery" else "difference of the score"
    title = f"{SITES.get(site, site)}: {unit}"
    size = len(found.names)
    grid = _grid(found, lambda row, column: _cell(float(values[row, column]), most, row * size + column in marked), 5)
    if fits(screen, grid):
        return titled(f"{title} (the strongest marked *)", grid)
    narrow = _grid(found, lambda row, column: _digit(float(values[row, column]), most))
    return titled(f"{title} (9: {most:.2f})", narrow)


def _grid(found: Trace, cell: Callable[[int, int], Text], width: int | None = None) -> Table:
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    grid.add_column(Text("layer"))
    for layer in found.layers:
        grid.add_column(str(layer), justify="right", no_wrap=True, min_width=width)
    for column, name in enumerate(found.names):
        grid.add_row(_cut(name), *(cell(row, column) for row in range(len(found.layers))))
    return grid


def _list(found: Trace, what: str, top: int) -> Group:
    """Returns the strongest places with the intervals of their means over pairs."""
    shown = strongest(found, top)
    many = len(found.pairs) > 1
    chosen = "" if len(shown) == len(found.effects) else f", of {count(len(found.effects))}"
    chosen += "; chosen on the pairs that they are measured on" if chosen and many else ""
    of = attrgetter("ratios" if what == "recovery" else "count")
    values = [(effect, float(getattr(effect, what))) for effect in shown]
    rows = (
        [
            place_name(found, effect),
            Text(f"{value:+.3f}", style=_style(value)),
            effect.interval(what),
            of(effect) if many else None,
        ]
        for effect, value in values
    )
    result = table(["place", f"{what}#", "95 % interval#+.2f", "pairs#"], rows)
    return titled(f"the {len(shown)} strongest{chosen}", result)


def _cell(value: float, most: float, marked: bool) -> Text:
    if math.isnan(value):
        return Text("")
    style = "dim" if abs(value) < FAINT * most else _style(value)
    return Text(f"{'*' if marked else ''}{round(value, 2) + 0.0:.2f}", style=f"bold {style}" if marked else style)


def _digit(value: float, most: float) -> Text:
    if math.isnan(value):
        return Text("")
    digit = round(9 * value / most)
    return Text(str(digit), style=_style(value) if digit else "dim")


def _style(value: float) -> str:
    return "cyan" if value > 0 else "yellow"


def _cut(name: str) -> Text:
    text = printable(name)
    text.truncate(MAX_WORD, overflow="ellipsis")
    return text
