"""Keeps the answers of reproductions: a file of rows for each and each model, which `write_items` writes and goes on with.

An item that the server rejects has a row, too, with the reason, so that it is not asked again.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from bertscope import Client, FailedPrecondition, InvalidArgument, Model, Provenance
from bertscope.errors import CLIENT_SIDE
from bertscope.rpc.splitting import OnRejected
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.readers.answer_rows import read_rows
from bertscope_workbench.readers.items.formats import Row
from bertscope_workbench.readers.items.identity import difference
from bertscope_workbench.readers.items.run import Answer, RowsProgress, write_items
from bertscope_workbench.readers.items.sources import Item, ItemStream

T = TypeVar("T")
AnswerT = TypeVar("AnswerT", bound=Answer)

SUFFIX = ".jsonl"
REJECTED = "rejected"
"""A column of every row: the reason why the server did not take the item; None if it did."""
OnDone = Callable[[int, int], object]
"""Hears how many items are answered, of how many."""


@record
class KeptAnswer:
    """The answer about one item, or the reason why there is none."""

    provenance: Provenance
    columns: Mapping[str, Any]

    def to_row(self) -> dict[str, Any]:
        """Returns its columns."""
        return dict(self.columns)


@record(frozen=False)
class KeptRows:
    """The questions of reproductions to one server, and the folder of their rows."""

    client: Client
    folder: Path
    timeout: float | None = None
    answered: bool = field(default=False, init=False)
    """True once the server has answered: from then on it is waited for."""

    def rows(
        self,
        name: str,
        model: Model,
        items: Sequence[Item[Any]],
        ask: Callable[..., Generator[KeptAnswer, None, None]],
        options: Mapping[str, Any],
        on_done: OnDone,
    ) -> list[Row]:
        """Asks about the items of a reproduction that have no row yet. Returns the rows of all, in order.

        Raises FailedPrecondition if rows belong to other items, options or weights than these; OSError; and as `ask`.
        """
        path = self.folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.{short_name(model)}{SUFFIX}"

        def show(progress: RowsProgress) -> None:
            self.answered = True
            on_done(progress.done, len(items))

        source = ItemStream(items)
        write_items(path, source, ask, options=options, resume=True, on_progress=show, answered_before=self.answered)
        rows = list(read_rows(path))
        now = {"weights": model.weights_digest, "runtime": model.runtime, "precision": model.precision}
        for name, value in now.items():
            if rows[0][name] != value:
                what, remedy = difference(name, rows[0][name], value)
                raise FailedPrecondition(f"{path} cannot go on: {what}; {remedy}, or name another folder", reason=CLIENT_SIDE)
        return rows

    def answers(
        self,
        model: Model,
        values: Iterator[T],
        ask: Callable[[Iterator[T], OnRejected], Generator[AnswerT, None, None]],
        columns: Callable[[T, AnswerT], dict[str, Any]],
        without: Callable[[T, InvalidArgument], dict[str, Any]],
    ) -> Generator[KeptAnswer, None, None]:
        """Yields an answer for each item, in order, with its `columns`, or those `without` an answer of an item that was
        rejected. Both have REJECTED.

        Raises FailedPrecondition, before any row is written, for an answer of other weights than the model's.
        """
        pending, rejected = dict[int, T](), dict[int, InvalidArgument]()

        def noted() -> Iterator[T]:
            for index, value in enumerate(values):
                pending[index] = value
                yield value

        def skipped(source: Provenance) -> Iterator[KeptAnswer]:
            while pending and (index := next(iter(pending))) in rejected:
                yield KeptAnswer(source, without(pending.pop(index), rejected.pop(index)))

        last: Provenance | None = None
        with closing(ask(noted(), rejected.__setitem__)) as answers:
            for answer in answers:
                last = answer.provenance
                check_weights(last, model)
                yield from skipped(last)
                value = pending.pop(next(iter(pending)))
                yield KeptAnswer(last, columns(value, answer))
        if pending:
            yield from skipped(last or self._source(model))

    def _source(self, model: Model) -> Provenance:
        """Returns the provenance of an answer of a model. Raises as `fill_mask`, and as `check_weights`."""
        found = self.client.fill_mask("[MASK]", model=model, top_k=1, timeout=self.timeout)[0].provenance
        check_weights(found, model)
        return found


def check_weights(source: Provenance, model: Model) -> None:
    """Raises FailedPrecondition if an answer is of other weights than the model that is asked."""
    if source.weights_digest != model.weights_digest:
        what, remedy = difference("weights", model.weights_digest, source.weights_digest)
        raise FailedPrecondition(f"{short_name(model)} was replaced: {what}; {remedy}, or begin again", reason=CLIENT_SIDE)
