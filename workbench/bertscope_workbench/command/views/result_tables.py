"""Prints the table of a result as its columns are declared: headings, formats, and intervals beside their estimates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertscope.values.columns import Column, named
from bertscope.values.display import ShownAsTable
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import starred, table, titled


def result_table(
    found: ShownAsTable,
    names: Sequence[str] = (),
    *,
    best: int | None = None,
    headings: Mapping[str, str] | None = None,
    rows: Sequence[Mapping[str, Any]] | None = None,
) -> Table:
    """Returns the table of a result: the columns of these names, in their order, all but ends of intervals unless given.

    The row whose first value is `best` has a star. `headings` replace those that are declared. `rows` are some of the result's
    records, or the same in another order.
    """
    declared = {column.name: column for column in found.declared() or named(*found.columns())}
    ends = {end for column in declared.values() for end in column.ends or () if end != column.name}
    titles = {name: column.heading for name, column in declared.items()} | {**(headings or {})}
    chosen = [declared[name]._replace(heading=titles[name]) for name in names or declared if names or name not in ends]
    shown = [each for column in chosen for each in _printed(column)]
    cells = [[_value(column, record) for column in shown] for record in (found.records() if rows is None else rows)]
    if best is not None:
        cells = [[starred(first, best), *rest] for first, *rest in cells]
    return table(shown, cells)


def print_layers(screen: Console, found: Any, heading: str, best: str, **headings: str) -> None:
    """Prints a row for each layer of a probe's result, the best one starred, which is what has `best` on the dev part."""
    screen.print(titled(f"{found.provenance.model}: {heading}", result_table(found, best=found.best_layer, headings=headings)))
    same = ", on which it is scored as well" if found.scored == "dev" else ""
    screen.print(Text(f"* {best}{same}; layer 0 is the embeddings"))


def _printed(column: Column) -> Iterator[Column]:
    """Yields the columns that a declared one is printed as: itself, and its interval."""
    if column.is_range:
        yield column._replace(text=True)
        return
    yield column._replace(ends=None)
    if column.ends:
        yield column._replace(heading="95 %", text=True)


def _value(column: Column, record: Mapping[str, Any]) -> Any:
    return tuple(record[end] for end in column.ends) if column.ends else record[column.name]
