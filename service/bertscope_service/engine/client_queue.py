"""Holds the waiting rows of one client, in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from bertscope_service.engine.rows import Row


class ClientQueue:
    """A queue of rows in which rows taken out of order stay as gaps until they are half of the queue.

    Removing each gap at once would cost time proportional to the queue's length, for each of the thousands of calls that end.
    """

    __slots__ = ("_gaps", "_rows")

    def __init__(self) -> None:
        self._rows: deque[Row] = deque()
        self._gaps = 0

    def __len__(self) -> int:
        return len(self._rows) - self._gaps

    def __iter__(self) -> Iterator[Row]:
        return (row for row in self._rows if not row.taken)

    def extend(self, rows: Iterable[Row]) -> None:
        """Appends rows."""
        self._rows.extend(rows)

    def forget(self, count: int) -> None:
        """Notes that `count` of the queue's rows were marked as taken."""
        self._gaps += count
        while self._rows and self._rows[0].taken:
            self._rows.popleft()
            self._gaps -= 1
        if self._gaps * 2 > len(self._rows):
            self._rows = deque(self)
            self._gaps = 0
