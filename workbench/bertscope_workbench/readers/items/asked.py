"""Asks about items in one call: each answer beside its item, and errors that name items by their own numbers."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, Generic, TypeVar

from bertscope import InvalidArgument

from bertscope_workbench.readers.items.naming import with_places
from bertscope_workbench.readers.items.sources import Item

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")

OnItemRejected = Callable[[Item[Any], InvalidArgument], object]
"""Takes an item that the server rejected, and the error."""


class RejectedItems:
    """Counts the items that the server rejects in the calls of a run."""

    def __init__(self, on_rejected: OnItemRejected | None) -> None:
        """`on_rejected` is told of each; without it the first one ends the run."""
        self.tell = on_rejected
        self.count = 0


class AskedItems(Generic[T]):
    """The items of one call."""

    def __init__(self, items: Iterable[Item[T]], key: str, rejected: RejectedItems) -> None:
        """`key` is the name of an item's number, "line" or "item"."""
        self._items, self._key, self._rejected = items, key, rejected
        self._pending: dict[int, Item[T]] = {}

    def answers(self, ask: Callable[..., Generator[AnswerT, None, None]]) -> Generator[tuple[Item[T], AnswerT], None, None]:
        """Yields each answer with its item, in order. The item is unanswered until the next answer is asked for.

        Raises as `ask`, which takes the items' values and `on_rejected`; InvalidArgument names items by their numbers.
        """
        more: dict[str, Any] = {} if self._rejected.tell is None else {"on_rejected": self._reject}
        try:
            with closing(ask(self._values(), **more)) as answers:
                for answer in answers:
                    index = next(iter(self._pending))
                    yield self._pending[index], answer
                    del self._pending[index]
        except InvalidArgument as error:
            raise self._named(error) from None

    def unanswered(self) -> list[Item[T]]:
        """Returns the items that were given to the call and have neither an answer nor were rejected, in order."""
        return [*self._pending.values()]

    def _values(self) -> Iterator[T]:
        for index, item in enumerate(self._items):
            self._pending[index] = item
            yield item.value

    def _reject(self, index: int, error: InvalidArgument) -> None:
        self._rejected.count += 1
        assert self._rejected.tell is not None  # noqa: S101  # only then the call has this function
        self._rejected.tell(self._pending.pop(index), error)

    def _named(self, error: InvalidArgument) -> InvalidArgument:
        """Returns the error with an item's number in the place of its index in the call."""
        numbers = {index: item.number for index, item in self._pending.items()}
        error.message = with_places(str(error), lambda index: f"{self._key} {numbers[index]}" if index in numbers else None)
        error.field_violations = ()
        error.args = (error.message,)
        return error
