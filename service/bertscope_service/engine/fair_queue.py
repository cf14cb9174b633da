"""Shares a device fairly between the clients of one priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bertscope_service.engine.client_queue import ClientQueue
from bertscope_service.engine.rows import Row

REMEMBERED_CLIENTS = 1024
"""While others wait, the service times of this many clients are remembered."""


class FairQueue:
    """One queue per client; the client that was served for the shortest time is next: fair queueing on a virtual clock.

    The clock shows how long a client that waited all the time would have been served before the running batch. A new client
    starts at the clock's time: idling earns no credit, and however many new clients come, the clock moves on, past those that
    wait already. The running batch counts once it is over, shared by all clients that wait by then: a client that comes while
    another's batch runs goes before that client's next batch, and does not wait for two of them. Priorities keep separate
    accounts: service of a client's bulk work does not delay its interactive calls.
    """

    def __init__(self) -> None:
        self._queues: dict[str, ClientQueue] = {}
        self._served: dict[str, float] = {}
        self._clock = 0.0
        self._running = 0.0
        """The seconds of the running batch, for which the clock has not moved yet."""

    def __len__(self) -> int:
        """Returns the number of waiting clients."""
        return len(self._queues)

    def __iter__(self) -> Iterator[Row]:
        """Iterates over all waiting rows."""
        for queue in self._queues.values():
            yield from queue

    def turns(self) -> Iterator[tuple[float, ClientQueue]]:
        """Yields the seconds that each client was served, and its queue; the client whose turn it is comes first."""
        return ((self._served[client], self._queues[client]) for client in sorted(self._queues, key=self._served.__getitem__))

    def push(self, client: str, rows: Sequence[Row]) -> None:
        """Appends rows behind those of the same client."""
        queue = self._queues.get(client)
        if queue is None:
            self._served[client] = max(self._served.get(client, 0.0), self._clock)
            queue = self._queues[client] = ClientQueue()
        queue.extend(rows)

    def charge(self, seconds: Mapping[str, float]) -> None:
        """Charges waiting clients for these seconds of the device's time; the batch before is over."""
        least = min(self._served[client] for client in self._queues)
        self._clock = max(self._clock + self._running / len(self._queues), least)
        self._running = sum(seconds.values())
        for client, share in seconds.items():
            self._served[client] += share

    def correct(self, seconds: Mapping[str, float]) -> None:
        """Charges clients these seconds more, or less, than when their batch was taken; it leaves out clients that are not
        remembered any more."""
        self._running = max(0.0, self._running + sum(seconds.values()))
        for client, more in seconds.items():
            if client in self._served:
                self._served[client] += more

    def forget(self, taken: Mapping[str, int]) -> None:
        """Notes how many rows of each client were marked as taken."""
        for client, count in taken.items():
            queue = self._queues[client]
            queue.forget(count)
            if not queue:
                del self._queues[client]
        if not self._queues:
            self._served, self._clock, self._running = {}, 0.0, 0.0
        elif len(self._served) > max(REMEMBERED_CLIENTS, 2 * len(self._queues)):
            # A client that does not wait now starts at the clock's time when it returns.
            self._served = {client: self._served[client] for client in self._queues}
