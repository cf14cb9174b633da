"""Divides texts into calls that take a few seconds each, however fast the server and however long the texts are.

A call of a fixed number of texts takes milliseconds on a GPU and minutes for long texts on a CPU. The first call is small and
alone; its time, and that of each call after it, tells how much work the next ones get. Pure: no channel, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from bertscope.values.validation import TextOrPair

Item = TypeVar("Item")

FIRST_WORK = 16 * 1024.0
"""Work of the first call: nine texts of 128 tokens, or some 100 short sentences. A bert-base describes them within two seconds
on two cores."""
CALL_SECONDS = 5.0
"""How long a call should take, with the time that it waits for the calls before it."""
DEADLINE_SHARE = 0.25
"""A call should take this part of its time limit at most."""
SQUARE_BYTES = 256
"""A text of so many bytes, some 60 tokens, takes as long for its length as for the square of it."""


def text_work(text: TextOrPair) -> float:
    """Returns the estimated work of a text or pair. Bytes stand for tokens: layers take time proportional to their number,
    maps to its square."""
    parts = (text,) if isinstance(text, str) else text
    size = sum(len(part.encode(errors="replace")) for part in parts)
    return size * (1 + size / SQUARE_BYTES)


class Pace(Generic[Item]):
    """The work of the next call, from the time that calls took."""

    def __init__(
        self, work: Callable[[Item], float], seconds: float | None, reference_texts: Iterable[str] = (), *, width: int = 1
    ) -> None:
        """`work` returns the estimated work of an item. `seconds` is the time limit of a call. `reference_texts` are read in
        every call. Up to `width` calls run at a time as soon as the first is answered."""
        self._work = work
        self._fixed = sum(map(text_work, reference_texts))
        self._width = width
        self._seconds = CALL_SECONDS if seconds is None else min(CALL_SECONDS, DEADLINE_SHARE * seconds)
        self._budget = FIRST_WORK
        self._known = False

    @property
    def width(self) -> int:
        """The most calls to run at a time: one until its time is known."""
        return self._width if self._known else 1

    def some(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yields the first of some items, at least one, up to the work of a call; it takes no others from `items`."""
        left = self._budget
        for item in items:
            yield item
            left -= self._work(item)
            if left <= 0:
                return

    def work(self, items: Iterable[Item]) -> float:
        """Returns the work of a call about some items."""
        return self._fixed + sum(map(self._work, items))

    def answered(self, work: float, seconds: float) -> None:
        """Notes that a call took some seconds. `work` is its own and that of the calls that ran when it began: they share the
        device."""
        self._known = True
        speed = work / max(seconds, 1e-6)
        # With many reference texts, a call with few others would be nothing but repetition.
        self._budget = max(speed * self._seconds / self._width - self._fixed, self._fixed)

    def missed(self) -> None:
        """Notes that a call missed its deadline: from now on one call runs at a time, with half the work at most."""
        self._width = 1
        self._budget = max(self._budget / 2, self._fixed)
