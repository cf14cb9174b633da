"""`bertscope facts --rows`: a row for each fact, as its answers come, and the tables that are made of the rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bertscope import Client, Fact, FactAnswers, FactRelation, InvalidArgument

from bertscope_workbench.command.options.items import LeftOut, RowOptions, report, write_known_rows
from bertscope_workbench.readers.answer_rows import read_fact_rows
from bertscope_workbench.readers.fact_files import read_facts
from bertscope_workbench.readers.items.run import WrittenItems
from bertscope_workbench.readers.items.sources import Item, ItemStream

TABLES = (".tsv", ".csv", ".parquet")
NUMBERED = re.compile(r"\bitem (\d+)(?:\.| )")


@dataclass
class FactSource:
    """The facts of several files."""

    items: list[Item[Fact]] = field(default_factory=list)
    """Each with its file and its line."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """Lines that can't be read, and facts that the server rejected."""

    @property
    def facts(self) -> list[Fact]:
        """The facts."""
        return [item.value for item in self.items]

    def add(
        self, path: Path, relation: str | None, columns: Mapping[str, str] | None, limit: int | None, *, skip_broken: bool
    ) -> None:
        """Adds the facts of a file. Raises OSError and InvalidArgument as `read_facts`."""
        given = columns if path.suffix.lower() in TABLES else None
        broken = self.left_out.broken if skip_broken else None
        found = read_facts(path, relation=relation, columns=given, limit=limit, on_broken=broken)
        for fact, line in zip(found, found.lines, strict=True):
            self.items.append(Item(fact, {"file": str(path), "line": line, **fact.to_row()}))

    def place(self, item: Item[Any]) -> str:
        """Returns the name of a fact's place."""
        return f"{item.columns['file']}, line {item.columns['line']}"

    def named(self, error: InvalidArgument) -> InvalidArgument:
        """Returns an error about a fact with its place."""
        error.message = NUMBERED.sub(lambda found: f"{self.place(self.items[int(found[1]) - 1])}: ", error.message)
        error.args = (error.message,)
        return error

    def report(self, written: WrittenItems) -> None:
        """Says how many rows were written."""
        report(written, self.left_out)


def answered_in_rows(
    client: Client,
    source: FactSource,
    relations: Sequence[FactRelation],
    rows: RowOptions,
    model: str | None,
    options: Mapping[str, Any],
) -> tuple[FactAnswers, WrittenItems]:
    """Writes a row for each fact, and returns the answers that the file has then."""
    assert rows.rows is not None  # noqa: S101  # the command has seen to it
    ask = partial(client.query_facts_stream, model=model)
    asked = {"relations": relations, **options}
    items: ItemStream[Fact] = ItemStream(source.items)
    try:
        written = write_known_rows(items, source.place, source.left_out, rows, ask, asked, "asking")
    except InvalidArgument as error:
        raise source.named(error) from None
    return read_fact_rows(rows.rows, relations), written
