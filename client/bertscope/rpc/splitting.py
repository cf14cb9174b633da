"""Splits any number of texts into calls that a server accepts. Pure: no channel, no clock; both clients use it.

An iterable is read only as needed, so that a generator of any length takes the memory of the calls under way.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from bertscope.errors import (
    CLIENT_SIDE,
    BertscopeError,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    ResourceExhausted,
)
from bertscope.rpc.logs import logger
from bertscope.rpc.pacing import Pace

Item = TypeVar("Item")

CALLS_UNDER_WAY = 4
USUAL_LIMIT = 256
"""Texts in a call that a server accepts by default. A server that accepts fewer says how many."""
FIRST_SIZE = 64
LEAST_SIZE = 8
SHORT_SECONDS, LONG_SECONDS = 0.5, 5.0
"""Calls grow while they take less, and shrink when they take more: large ones waste least, small ones meet their deadlines."""

TOO_LARGE = (
    "TOO_MANY_TEXTS",
    "TOO_MANY_TOKENS",
    "TOO_MANY_PREDICTIONS",
    "TOO_MANY_NAMES",
    "REQUEST_TOO_LARGE",
    "REPLY_TOO_LARGE",
)
NOT_OURS = "reference_texts"
TEXT_FIELD = re.compile(r"(texts|inputs|spans|facts|sets|pairs|text_candidates|text_pairs)\[(\d+)\]")

OnRejected = Callable[[int, InvalidArgument], object]
"""Takes the index of a text that the server rejected, and the error."""


class Limit:
    """The most texts in a call, as far as the client knows."""

    texts = USUAL_LIMIT


@dataclass(frozen=True)
class Part(Generic[Item]):
    """The items of one call."""

    start: int
    """Index of the first item in the whole list."""
    items: Sequence[Item]
    failures: int = 0
    """How often the server was too busy for it."""

    @property
    def numbers(self) -> range:
        """Index of each item in the whole list."""
        return range(self.start, self.start + len(self.items))


class Parts(Generic[Item]):
    """The calls still to be made. A list that fits into one call is one; any other begins with calls of 64.

    With a pace, calls are as large as the pace says, and a list is one call if that is large enough.
    """

    def __init__(
        self,
        items: Iterator[Item],
        total: int | None,
        limit: Limit,
        *,
        large: bool = False,
        pace: Pace[Item] | None = None,
        on_rejected: OnRejected | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """`total` is the number of items, if known; `large` calls are worth more than quick ones; a `pace`, if there is one,
        says how large they are. Texts that the server rejects are left out if `on_rejected` is to be told about them. `numbers`
        are the items' indices, unless they count from 0."""
        self._on_rejected, self._numbers = on_rejected, numbers
        self._items, self._total = items, total
        self._limit, self._pace = limit, pace
        small = not large and pace is None and (total is None or total > limit.texts)
        self._size = FIRST_SIZE if small else limit.texts
        self._again: deque[Part[Item]] = deque()
        self._taken = 0
        self._begun = False
        self._failure: Exception | None = None
        self._weights = ""

    def only(self) -> Part[Item] | None:
        """Takes and returns the part that holds all items; None if there are, or may be, several."""
        if self._total is None or self._total > min(self._size, self._limit.texts):
            return None
        part = self.take()
        if part is not None and len(part.items) < self._total:
            self.put_back([part])
            return None
        return part

    def take(self) -> Part[Item] | None:
        """Returns the items of the next call; None at the end. An empty list is one empty call, which the server judges."""
        if self._again:
            return self._again.popleft()
        if self._failure is not None:
            return None
        start, items = self._taken, list[Item]()
        try:
            items.extend(self._next())  # keeps what comes before an error
        except Exception as error:  # noqa: BLE001  # raised again by `end`: what was read before it is answered first
            self._failure = error
        self._taken += len(items)
        if not items and (self._begun or self._failure is not None):
            return None
        self._begun = True
        return Part(start, items)

    def _next(self) -> Iterator[Item]:
        allowed = islice(self._items, min(self._size, self._limit.texts))
        return allowed if self._pace is None else self._pace.some(allowed)

    @property
    def width(self) -> int:
        """The most calls to run at a time."""
        return CALLS_UNDER_WAY if self._pace is None else self._pace.width

    def work(self, part: Part[Item]) -> float:
        """Returns the work of a call, as the pace counts it."""
        return 0.0 if self._pace is None else self._pace.work(part.items)

    def end(self) -> None:
        """Notes that all taken parts are answered. Raises the error that kept the rest from being read."""
        if self._failure is not None:
            raise self._failure

    def answered(self, seconds: float, work: float = 0.0) -> None:
        """Notes how long a call took. `work` is that of all calls that ran when it began, its own included."""
        if self._pace is not None:
            self._pace.answered(work, seconds)
        elif seconds < SHORT_SECONDS:
            self._size = min(self._limit.texts, self._size * 2)
        elif seconds > LONG_SECONDS:
            self._size = max(LEAST_SIZE, self._size // 2)

    def check_weights(self, number: int, weights: str) -> None:
        """Raises FailedPrecondition if another model answers than before."""
        if self._weights and weights != self._weights:
            raise FailedPrecondition(
                f"from text {number} on, a model with other weights answers; ask for all texts again",
                reason=CLIENT_SIDE,
                metadata={"before": self._weights, "now": weights},
            )
        self._weights = weights

    def without_rejected(self, part: Part[Item], error: BertscopeError) -> list[Part[Item]] | None:
        """Returns the parts to send in place of a call of which one text was rejected; None if texts are not left out, or the
        error is another one."""
        place = _rejected(error)
        size = len(part.items)
        if self._on_rejected is None or place is None or place >= size or (size > 1 and _too_large(error)):
            return None
        numbers = self._numbers_of(part)
        rejected = located(error, numbers)
        assert isinstance(rejected, InvalidArgument)  # noqa: S101  # `_rejected` has seen to it
        self._on_rejected(numbers[place], rejected)
        rest = Part(part.start, part.items[:place]), Part(part.start + place + 1, part.items[place + 1 :])
        return [each for each in rest if each.items]

    def refused(self, part: Part[Item], error: BertscopeError, attempts: int) -> tuple[list[Part[Item]], float]:
        """Returns the parts to send in place of a failed call, and the seconds to wait before.

        Raises the error, which names a text by its index in the whole list, if retrying does not help.
        """
        size = len(part.items)
        if size > 1 and _too_large(error):
            limit = error.metadata.get("limit", "")
            if error.reason == "TOO_MANY_TEXTS" and limit.isdecimal() and 0 < int(limit) < size:
                most = self._limit.texts = int(limit)
            else:
                most = (size + 1) // 2
            self._size = min(self._size, most)
            reason = error.reason or error.code.name
            logger.info(
                "a call of %d texts is too large for the server (%s); they go in calls of %d at most", size, reason, most
            )
            return [Part(part.start + place, part.items[place : place + most]) for place in range(0, size, most)], 0.0
        if self._pace is not None and isinstance(error, DeadlineExceeded) and self._taken > 1 and part.failures + 1 < attempts:
            self._pace.missed()
            logger.info("a call of %d texts missed its deadline; calls are smaller from now on, one at a time", size)
            most, failures = (size + 1) // 2, part.failures + 1
            return [Part(part.start + place, part.items[place : place + most], failures) for place in range(0, size, most)], 0.0
        # One call is for the caller to ask again; of many, a refusal must not lose the others.
        alone = size == self._taken and (self._pace is None or size == self._total)
        if isinstance(error, ResourceExhausted) and error.retry_after and part.failures + 1 < attempts and not alone:
            failures, seconds = part.failures + 1, error.retry_after
            logger.info("the server is overloaded (%s); failure %d, tries again in %.2g s", error.reason, failures, seconds)
            return [Part(part.start, part.items, part.failures + 1)], error.retry_after
        raise located(error, self._numbers_of(part)) from None

    def _numbers_of(self, part: Part[Item]) -> Sequence[int]:
        return part.numbers if self._numbers is None else self._numbers[part.start : part.start + len(part.items)]

    def put_back(self, parts: Iterable[Part[Item]]) -> None:
        """Puts parts back to be taken next, in this order."""
        self._again.extendleft(reversed([*parts]))


def located(error: BertscopeError, numbers: Sequence[int], field: str | None = None) -> BertscopeError:
    """Returns the error of one call, its texts named by their index in the whole list, and by `field` if the list has a name
    of its own."""
    if field is None and (not numbers or (numbers[0] == 0 and numbers[-1] == len(numbers) - 1)):
        return error

    def place(found: re.Match[str]) -> str:
        index = int(found[2])
        return f"{field or found[1]}[{numbers[index]}]" if index < len(numbers) else found[0]

    violations, message = [], error.message
    for violation in error.field_violations:
        begin = TEXT_FIELD.match(violation.field)
        if begin is None:
            violations.append(violation)
            continue
        named = re.compile(rf"(?<![\w.])({begin[1]})\[({begin[2]})\]")
        message = named.sub(place, message)
        violations.append(FieldViolation(named.sub(place, violation.field), named.sub(place, violation.description)))
    error.field_violations = tuple(violations)
    error.message = message
    error.args = (message,)
    return error


def _rejected(error: BertscopeError) -> int | None:
    """Returns the index, in its call, of the one text that an error is about."""
    if not isinstance(error, InvalidArgument):
        return None
    fields = [TEXT_FIELD.match(violation.field) for violation in error.field_violations]
    places = {None if field is None else int(field[2]) for field in fields}
    return places.pop() if len(places) == 1 else None


def _too_large(error: BertscopeError) -> bool:
    """Returns whether fewer texts would be accepted. gRPC's error for a message that is too large has no reason."""
    if error.reason in TOO_LARGE:
        return not any(violation.field.startswith(NOT_OURS) for violation in error.field_violations)
    return isinstance(error, ResourceExhausted) and not error.reason and "message larger than max" in error.message.lower()
