"""Prints the table of a result as its columns are declared: headings, formats, and intervals beside their estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bertscope.values.columns import Column, named
from bertscope.values.display import ShownAsTable
from rich.table import Table

from bertscope_workbench.command.views.output import percent, printable, starred, table


def result_table(
    found: ShownAsTable,
    names: Sequence[str] = (),
    *,
    best: int | None = None,
    headings: Mapping[str, str] | None = None,
    rows: Sequence[Mapping[str, Any]] | None = None,
) -> Table:
    """Returns the table of a result: the columns of these names, all but ends of intervals unless given.

    The row whose first value is `best` has a star. `headings` replace those that are declared. `rows` are some of the result's
    records, or the same in another order.
    """
    chosen = [column for column in _shown(found) if not names or column.name in names]
    result = table([name for column in chosen for name in _names(column, (headings or {}).get(column.name, column.title))])
    for record in found.records() if rows is None else rows:
        cells = [cell for column in chosen for cell in _cells(column, record)]
        result.add_row(*(cells if best is None else [starred(record[chosen[0].name], best), *cells[1:]]))
    return result


def layer_table(found: Any, **headings: str) -> Table:
    """Returns a row for each layer of a result with `best_layer` and `seeds`, the best one starred; with the range over several
    seeds."""
    names = [column.name for column in _shown(found) if found.seeds[1:] or column.name != "seed_low"]
    return result_table(found, names, best=found.best_layer, headings=headings)


def shown(value: Any, form: str = "") -> str:
    """Returns a value as people read it; nothing for one that there is not."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if form == "%":
        return percent(value)
    return f"{100 * value:+.1f}" if form == "+%" else f"{value:{form}}"


def _shown(found: ShownAsTable) -> list[Column]:
    """Returns the columns of a table but for ends of others' intervals."""
    columns = found.declared() or named(*found.columns())
    ends = {end for column in columns for end in column.ends or () if end != column.name}
    return [column for column in columns if column.name not in ends]


def _names(column: Column, title: str) -> list[str]:
    if column.is_range:
        return [title]
    number = "" if column.text else "#"
    return [f"{title}{number}", *(["95 %"] if column.ends else [])]


def _cells(column: Column, record: Mapping[str, Any]) -> list[Any]:
    low, high = (shown(record[end], column.form) for end in column.ends or (column.name, column.name))
    span = f"{low} to {high}" if low else ""
    if column.is_range:
        return [span]
    value = record[column.name]
    own = printable(value) if isinstance(value, str) else shown(value, column.form)
    return [own, span] if column.ends else [own]
