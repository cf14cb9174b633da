"""The clients of one priority, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bertscope_service.engine.line import Line
from bertscope_service.engine.rows import Row

REMEMBERED_CLIENTS = 1024
"""How long so many clients were served is remembered while others wait."""


class Lane:
    """One line per client; the client that was served for the shortest time is next: fair queueing on a virtual clock.

    The clock shows how long a client would have been served by now that waited all the time. A client that comes starts at what
    the clock shows: idling earns no credit, and however many new clients come, the clock moves on, past those who wait already.
    Priorities keep separate accounts: what a client's bulk work was served is no debt of its interactive calls.
    """

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._served: dict[str, float] = {}
        self._clock = 0.0

    def __len__(self) -> int:
        """How many clients wait."""
        return len(self._lines)

    def __iter__(self) -> Iterator[Row]:
        """All waiting rows."""
        for line in self._lines.values():
            yield from line

    def turns(self) -> Iterator[tuple[float, Line]]:
        """How many seconds each client was served, and its line; the client whose turn it is first."""
        return ((self._served[client], self._lines[client]) for client in sorted(self._lines, key=self._served.__getitem__))

    def push(self, client: str, rows: Sequence[Row]) -> None:
        """Let rows wait behind those of the same client."""
        line = self._lines.get(client)
        if line is None:
            self._served[client] = max(self._served.get(client, 0.0), self._clock)
            line = self._lines[client] = Line()
        line.extend(rows)

    def charge(self, seconds: Mapping[str, float]) -> None:
        """Clients that wait are given so much of the device's time."""
        least = min(self._served[client] for client in self._lines)
        self._clock = max(self._clock, least) + sum(seconds.values()) / len(self._lines)
        for client, share in seconds.items():
            self._served[client] += share

    def forget(self, taken: Mapping[str, int]) -> None:
        """So many rows of each client were marked as taken."""
        for client, count in taken.items():
            line = self._lines[client]
            line.forget(count)
            if not line:
                del self._lines[client]
        if not self._lines:
            self._served, self._clock = {}, 0.0
        elif len(self._served) > max(REMEMBERED_CLIENTS, 2 * len(self._lines)):
            # Clients come and go; who does not wait now starts by the clock when it comes back.
            self._served = {client: self._served[client] for client in self._lines}
