"""How much waits, and how long it is expected to take."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from bertscope_service.engine.rows import Job, Priority, Row


@dataclass(slots=True)
class Load:
    """Some waiting rows: how many, their tokens, and the seconds they are expected to take."""

    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, rows: int, tokens: int, seconds: float) -> None:
        """More of them wait; fewer, with negative numbers."""
        self.rows += rows
        self.tokens += tokens
        # What rounding leaves of a sum of seconds goes when nothing waits any more.
        self.seconds = self.seconds + seconds if self.rows else 0.0


@dataclass(slots=True)
class Backlog:
    """The load of a device: of each priority with those that go first, and of each client. Kept up to date row by row."""

    _up_to: dict[Priority, Load] = field(default_factory=lambda: {priority: Load() for priority in Priority})
    _clients: dict[Priority, defaultdict[str, Load]] = field(
        default_factory=lambda: {priority: defaultdict(Load) for priority in Priority}
    )

    def push(self, job: Job) -> None:
        """All rows of a job wait."""
        self._add(job, len(job.rows), job.tokens)

    def pop(self, row: Row) -> None:
        """A row waits no longer."""
        self._add(row.job, -1, -len(row.sequence))

    @property
    def total(self) -> Load:
        """All that waits."""
        return self._up_to[max(Priority)]

    def up_to(self, priority: Priority) -> Load:
        """What waits of a priority and of those that go first: nothing else is in the way of a job."""
        return self._up_to[priority]

    def clients(self, priority: Priority) -> int:
        """How many clients have such rows waiting; one that has some of two priorities counts twice."""
        return sum(len(clients) for other, clients in self._clients.items() if other <= priority)

    def tokens_of(self, client: str, priority: Priority) -> int:
        """Tokens that a client has waiting in such rows."""
        return sum(
            clients[client].tokens for other, clients in self._clients.items() if other <= priority and client in clients
        )

    def seconds_before(self, client: str, priority: Priority, seconds: float) -> float:
        """What is expected to run before a job of so many seconds is through, without itself.

        That is what goes first by priority, what its client has waiting, and of each other client as much as this client will
        have had by then, for clients share evenly.
        """
        first = self._up_to[Priority(priority - 1)].seconds if priority else 0.0
        lane = self._clients[priority]
        own = lane[client].seconds if client in lane else 0.0
        share = own + seconds
        return first + own + sum(min(load.seconds, share) for name, load in lane.items() if name != client)

    def _add(self, job: Job, rows: int, tokens: int) -> None:
        seconds = tokens * job.token_seconds
        clients = self._clients[job.priority]
        load = clients[job.client]
        load.add(rows, tokens, seconds)
        for other, ahead in self._up_to.items():
            if other >= job.priority:
                ahead.add(rows, tokens, seconds)
        if not load.rows:
            del clients[job.client]
