"""Asks about any number of items and writes a row for each, in order, as the answers come.

A row has the item's number, its own columns, the answer's, and where they come from: the model, its weights, the versions of
the server and its libraries, the options and the client's version. Nothing in it depends on when or in how many parts it was
asked for, so that a run that was cut short and goes on ends with the file of one that nobody disturbed. What would mix two runs
is refused by name.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from bertscope import (
    BertscopeError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    Provenance,
    ResourceExhausted,
    TextsProgress,
    Unavailable,
    __version__,
)
from bertscope.errors import CLIENT_SIDE, invalid_argument
from bertscope.values.display import record
from bertscope.values.validation import File

from bertscope_workbench.readers.items.asked import AskedItems, OnItemRejected, RejectedItems
from bertscope_workbench.readers.items.identity import difference, options_text, provenance_columns, question
from bertscope_workbench.readers.items.row_file import RowFile
from bertscope_workbench.readers.items.sources import Item, Items, items_of

__all__ = ["RowsProgress", "WrittenItems", "write_items"]

T = TypeVar("T")

PATIENCE_SECONDS = 300.0
"""How long a run waits for a server that is away, unless it is told otherwise."""
WAIT_SECONDS = 1.0
"""Wait before a call is repeated when no server could be reached."""
PROVENANCE_COLUMNS = ("model", "weights", "runtime", "precision", "versions", "options", "bertscope")
PASSING = (Unavailable, Cancelled, DeadlineExceeded, ResourceExhausted)
"""Errors of a server that is not there now, or too busy."""
LOADING = "MODEL_NOT_READY"
"""The reason of a model that somebody loads."""


class Answer(Protocol):
    """The answer about one item."""

    @property
    def provenance(self) -> Provenance:
        """Where it comes from."""

    def to_row(self) -> dict[str, Any]:
        """Returns its columns, the same for every item."""


AnswerT = TypeVar("AnswerT", bound=Answer)


@dataclass(frozen=True)
class RowsProgress(TextsProgress):
    """The progress of `write_items`."""

    rows: int
    """The rows that the file has, those of an earlier run among them."""


@record
class WrittenItems:
    """The rows of a file that `write_items` has written."""

    path: Path
    """The file."""
    rows: int
    """All its rows."""
    resumed: int
    """Rows that it had before."""
    rejected: int
    """Items that the server rejected, which have no row."""


def write_items(
    output: File,
    items: Items[T] | Iterable[Any],
    ask: Callable[..., Generator[Answer, None, None]],
    *,
    options: Mapping[str, Any] | None = None,
    resume: bool = False,
    on_rejected: OnItemRejected | None = None,
    on_progress: Callable[[RowsProgress], object] | None = None,
    patience: float = PATIENCE_SECONDS,
    answered_before: bool = False,
) -> WrittenItems:
    """Asks about any number of items, and writes a row for each to a .csv, .jsonl or .parquet file, as the answers come.

    `items` are an `ItemFile`, or an iterable of texts, pairs or `Item`s, which is read as needed. `ask` is a streaming method
    of `Client`, `client.fill_mask_stream`, which is called with the items' values and the `options`. `on_rejected` takes the
    items that the server rejects, which are then left out; without it the first one ends the run. A server that goes away after
    the first answer, or that was restarted and has not loaded the model yet, is waited for, `patience` seconds from the last
    row; with `answered_before`, so is one that has not answered this run yet. However the run ends, the file has a whole row
    for each answer.

    `resume` goes on with the file of an earlier run: its items must be the first ones now, and the options, the weights and the
    versions of the client, the server and its libraries the same. Raises FailedPrecondition, saying what differs, if they are
    not, and for a file that exists without `resume`; OSError for a file that cannot be written; InvalidArgument for a patience
    below 0; and as `ask` does.
    """
    if not patience >= 0:
        raise invalid_argument("patience", "must be 0 or more seconds")
    source: Items[Any] = items_of(items)
    own = {} if options is None else dict(options)
    with RowFile(Path(output), resume=resume) as file:
        run = _Run(source, file, {"question": question(ask), **own}, on_rejected, on_progress)
        complete = False
        try:
            rest = run.resumed()
            run.finish(rest, lambda values, **more: ask(values, **own, **more), patience, answered_before)
            complete = True
        finally:
            file.end(complete=complete)
            run.report()  # A signal may have come between a row and its report.
        if not file.rows:
            raise invalid_argument("items", "there is no row to write: every item was rejected, or there was none")
    return WrittenItems(file.path, file.rows, run.earlier, run.rejected.count)


class _Run(Generic[T]):
    """The items of one file, from where an earlier run ended."""

    def __init__(
        self,
        source: Items[T],
        file: RowFile,
        options: Mapping[str, Any],
        on_rejected: OnItemRejected | None,
        on_progress: Callable[[RowsProgress], object] | None,
    ) -> None:
        self.earlier = self._reported = 0
        self.rejected = RejectedItems(on_rejected)
        self._source, self._file = source, file
        self._on_progress = on_progress
        self._names = source.columns
        self._ours = {"options": options_text(options), "bertscope": __version__}
        self._was: Mapping[str, Any] = self._ours
        self._seen = 0
        self._known: tuple[Provenance | None, Mapping[str, Any]] = (None, {})

    def resumed(self) -> Iterator[Item[T]]:
        """Returns the items that have no row yet. Raises FailedPrecondition if the rows belong to other items or options."""
        items = iter(self._source)
        for written in self._file.read():
            if not self.earlier:
                self._check_same(self._ours, written.cells)
                self._was = {name: written.cells.get(name) for name in PROVENANCE_COLUMNS if name in written.cells}
            elif any(written.cells.get(name) != value for name, value in self._was.items()):
                raise self._other(f"line {written.number} comes from another run than the lines before it", "")
            self._check_item(written.cells, items)
            self.earlier += 1
        self._reported = self.earlier
        return items

    def finish(
        self,
        items: Iterator[Item[T]],
        ask: Callable[..., Generator[Answer, None, None]],
        patience: float,
        answered_before: bool,
    ) -> None:
        """Asks about the items and writes their rows; asks again about those without one when the server was lost."""
        again: deque[Item[T]] = deque()  # Items that were asked about in vain; an attempt may end before it takes them all.
        since = 0.0

        def rest() -> Iterator[Item[T]]:
            while again:
                yield again.popleft()
            for item in items:  # noqa: UP028  # `yield from` would close the items when an attempt fails
                yield item

        while (first := next(rest(), None)) is not None:
            again.appendleft(first)
            asked = AskedItems(rest(), self._source.key, self.rejected)
            before = self._file.rows
            try:
                self._answer(asked, ask)
            except InvalidArgument:
                raise
            except BertscopeError as error:
                now = time.monotonic()
                since = now if self._file.rows > before or not since else since
                answered = answered_before or self._file.rows > self.earlier
                if not answered or now - since >= patience or not _passes(error):
                    raise
                time.sleep(error.retry_after or WAIT_SECONDS)
                again.extendleft(reversed(asked.unanswered()))

    def _answer(self, asked: AskedItems[T], ask: Callable[..., Generator[Answer, None, None]]) -> None:
        with closing(asked.answers(ask)) as answers:
            for item, answer in answers:
                self._write(item, answer)
                self.report()

    def report(self) -> None:
        """Tells the caller of a row that it has not heard of yet."""
        if self._on_progress is None or self._file.rows <= self._reported:
            return
        self._reported = self._file.rows
        self._on_progress(RowsProgress(self._seen + self.rejected.count + self._reported, self._source.total, self._reported))

    def _write(self, item: Item[T], answer: Answer) -> None:
        known, columns = self._known
        if answer.provenance is not known:
            columns = provenance_columns(answer.provenance) | self._ours
            self._check_same(columns, self._was)
            self._was, self._known = columns, (answer.provenance, columns)
        results = answer.to_row()
        own = self._own(item)
        taken = [name for name in own if name in results or name in columns]
        if taken:
            raise invalid_argument("items", f"have a column {taken[0]!r}, which is a column of the results; rename it")
        self._file.append({**own, **results, **columns})

    def _own(self, item: Item[T]) -> dict[str, Any]:
        """Returns an item's number and its columns."""
        if self._names is None:
            self._names = tuple(item.columns)
        own = {name: item.columns.get(name) for name in self._names}
        key = self._source.key
        if key in own:
            raise invalid_argument("items", f"{key} {item.number} has a column {key!r}, which is not free; rename it")
        if more := [name for name in item.columns if name not in own]:
            message = f"{key} {item.number} has a column {more[0]!r}, which the first has not; give all the same columns"
            raise invalid_argument("items", message)
        return {key: item.number, **own}

    def _check_item(self, written: Mapping[str, Any], items: Iterator[Item[T]]) -> None:
        """Finds the item of a row. Items before it that have none were rejected."""
        key = self._source.key
        for item in items:
            own = self._own(item)
            if str(written.get(key)) != str(item.number):
                if self.rejected.tell is None:
                    raise self._other(
                        f"it has no row for {key} {item.number}", "give the same file, or leave rejected items out"
                    )
                self._seen += 1
                continue
            if not self._file.same(own, written):
                raise self._other(f"its row for {key} {item.number} is about another item", "give the same items")
            return
        raise self._other(f"it has a row for {key} {written.get(key)}, which is not among the items", "give the same items")

    def _check_same(self, now: Mapping[str, Any], was: Mapping[str, Any]) -> None:
        """Raises FailedPrecondition, naming the difference, unless two rows come from the same run."""
        for name, value in now.items():
            if name not in was:
                if was is self._ours:
                    continue  # nothing was answered yet
                raise self._other(f"it has no column {name!r}: this version of bertscope did not write it", "")
            if was[name] != value:
                raise self._other(*difference(name, was[name], value))

    def _other(self, what: str, remedy: str) -> FailedPrecondition:
        more = f"{remedy}, or write to another file" if remedy else "write to another file"
        return FailedPrecondition(f"{self._file.path} cannot go on: {what}; {more}", reason=CLIENT_SIDE)


def _passes(error: BertscopeError) -> bool:
    """Returns True for a server that has answered before and may answer later."""
    return error.reason == LOADING or (isinstance(error, PASSING) and error.reason != CLIENT_SIDE)
