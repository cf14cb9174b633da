"""Reads items one at a time, each with its number and its own columns: from a file, or from any iterable."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar, runtime_checkable

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.validation import File

from bertscope_workbench.readers.files import Columns, ItemKind, item_lines
from bertscope_workbench.readers.item_lists import no_line
from bertscope_workbench.readers.table_rows import Broken, Line

__all__ = ["Item", "ItemFile"]

T = TypeVar("T")

OWN_NAMES = ("text", "text_pair")
"""Columns of an item that is a text or a pair."""


@runtime_checkable
class HasRow(Protocol):
    """A value that says by itself what its columns are, as a `Fact` does."""

    def to_row(self) -> dict[str, Any]:
        """Returns its columns, the same for every item."""


@record
class Item(Generic[T]):
    """One of many items."""

    value: T
    """The text, pair or other value that is asked about."""
    columns: Mapping[str, Any]
    """Its own columns, which are written beside the results."""
    number: int = 0
    """The number of its line in a file, or its place among the items, from 1."""


class ItemFile(Generic[T]):
    """The items of a file: .tsv, .csv, .jsonl, .parquet, or .txt for texts.

    The file is read twice: whole when the object is made, which finds every broken line before anything is asked, and again
    as the items are needed. Memory does not grow with its size.
    """

    key = "line"
    """The name of an item's number."""

    def __init__(
        self,
        path: File,
        kind: ItemKind[T],
        *,
        columns: Columns = None,
        limit: SupportsIndex | None = None,
        on_broken: Broken | None = None,
    ) -> None:
        """`kind` says which columns an item is made of; `TEXTS`, `INPUTS` and others. `columns` maps their names to the file's.
        `on_broken` takes the error of each line that cannot be read, which is then left out.

        Raises OSError for a file that cannot be read, and InvalidArgument for the first broken line, unless `on_broken` takes
        it, and for a file without items.
        """
        self.path = Path(path)
        self.left_out = 0
        """The lines that were left out."""
        self._kind, self._names, self._limit = kind, columns, limit
        self.total, self.columns = self._survey(on_broken)
        """The number of items, and the names of all their columns."""

    def __iter__(self) -> Iterator[Item[T]]:
        for line, value in self._lines(lambda error: None):
            yield Item(value, line.columns, line.number)

    def _lines(self, broken: Broken) -> Iterator[tuple[Line, T]]:
        most = None if self._limit is None else validation.positive("limit", self._limit)
        return itertools.islice(item_lines(self.path, self._kind, self._names, broken), most)

    def _survey(self, on_broken: Broken | None) -> tuple[int, tuple[str, ...]]:
        """Returns the number of items and the names of all their columns."""

        def broken(error: InvalidArgument) -> None:
            if on_broken is None:
                raise error
            self.left_out += 1
            on_broken(error)

        total, names = 0, dict[str, None]()
        for line, _ in self._lines(broken):
            total += 1
            if not names.keys() >= line.columns.keys():
                names |= dict.fromkeys(line.columns)
        if not total:
            raise invalid_argument(str(self.path), no_line(self._kind.required))
        return total, tuple(names)


class ItemStream(Generic[T]):
    """The items of an iterable, counted from 1."""

    key = "item"
    """The name of an item's number."""
    columns = None
    """The names of the columns that items have are those of the first."""

    def __init__(self, items: Iterable[T | Item[T]]) -> None:
        """Texts and pairs are their own columns, and `Fact`s have theirs."""
        self._items = items
        self.total = len(items) if isinstance(items, Sequence) else None
        """The number of items; None if it is not known."""

    def __iter__(self) -> Iterator[Item[T]]:
        for number, value in enumerate(self._items, start=1):
            if isinstance(value, Item):
                yield Item(value.value, value.columns, number)
            elif isinstance(value, HasRow):
                yield Item(value, value.to_row(), number)
            else:
                parts = value if isinstance(value, tuple) else (value,)
                if len(parts) > len(OWN_NAMES):
                    raise invalid_argument(f"items[{number - 1}]", "must be a text, a pair, a Fact, or an Item")
                yield Item(value, dict(zip(OWN_NAMES, parts, strict=False)), number)


Items = ItemFile[T] | ItemStream[T]
"""Any number of items, in order."""


def items_of(items: Items[T] | Iterable[Any]) -> Items[T]:
    """Returns items that are counted. Raises InvalidArgument for a string."""
    if isinstance(items, str):
        raise invalid_argument("items", "must be many; write [text] for one")
    return items if isinstance(items, (ItemFile, ItemStream)) else ItemStream(items)
