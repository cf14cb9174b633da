"""The waiting rows of one client, in the order they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from bertscope_service.engine.rows import Row


class Line:
    """Rows that were taken out of turn stay as gaps until they are half of the line.

    Clearing each gap at once would cost as much as the line is long, for every one of the thousands of calls in it that end.
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
        """Let rows wait behind all others."""
        self._rows.extend(rows)

    def forget(self, count: int) -> None:
        """So many of the line's rows were marked as taken."""
        self._gaps += count
        while self._rows and self._rows[0].taken:
            self._rows.popleft()
            self._gaps -= 1
        if self._gaps * 2 > len(self._rows):
            self._rows = deque(self)
            self._gaps = 0
