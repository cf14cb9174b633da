"""Counts the rows that wait, and how long they are expected to take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bertscope_service.engine.rows import Job, Priority, Row, tokens_of


@dataclass(slots=True)
class Load:
    """Some waiting rows: their number, their tokens, and the seconds they are expected to take."""

    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, rows: int, tokens: int, seconds: float) -> None:
        """Adds rows to the load; negative numbers remove them."""
        self.rows += rows
        self.tokens += tokens
        # Rounding errors in the sum of seconds are cleared when nothing waits any more.
        self.seconds = self.seconds + seconds if self.rows else 0.0


@dataclass(slots=True)
class Backlog:
    """The load of a device: per priority including higher ones, and per client. It is updated batch by batch."""

    _up_to: dict[Priority, Load] = field(default_factory=lambda: {priority: Load() for priority in Priority})
    _clients: dict[Priority, defaultdict[str, Load]] = field(
        default_factory=lambda: {priority: defaultdict(Load) for priority in Priority}
    )

    def push(self, job: Job) -> None:
        """Adds all rows of a job."""
        self._add(job, len(job.rows), job.tokens)

    def pop(self, job: Job, rows: Sequence[Row]) -> None:
        """Removes rows of a job that no longer wait."""
        self._add(job, -len(rows), -tokens_of(rows))

    @property
    def total(self) -> Load:
        """The load of all waiting rows."""
        return self._up_to[max(Priority)]

    def up_to(self, priority: Priority) -> Load:
        """Returns the load of a priority and of higher ones: nothing else delays a job."""
        return self._up_to[priority]

    def clients(self, priority: Priority) -> int:
        """Returns how many clients have such rows waiting; a client with rows of two priorities counts twice."""
        return sum(len(clients) for other, clients in self._clients.items() if other <= priority)

    def tokens_of(self, client: str, priority: Priority) -> int:
        """Returns the tokens that a client has waiting in such rows."""
        return sum(
            clients[client].tokens for other, clients in self._clients.items() if other <= priority and client in clients
        )

    def excess(self, client: str, priority: Priority, most: int) -> int:
        """Returns the tokens that other clients have waiting in such rows beyond `most` each."""
        others = {name for other, loads in self._clients.items() if other <= priority for name in loads} - {client}
        return sum(max(0, self.tokens_of(name, priority) - most) for name in others)

    def seconds_before(self, client: str, priority: Priority, seconds: float) -> float:
        """Returns the seconds of work expected to run before a job of `seconds` ends, without the job itself.

        The sum of all higher priorities, of the client's own waiting work, and of each other client's work up to the amount
        that this client will have had by then, for clients share evenly.
        """
        first = self._up_to[Priority(priority - 1)].seconds if priority else 0.0
        loads = self._clients[priority]
        own = loads[client].seconds if client in loads else 0.0
        share = own + seconds
        return first + own + sum(min(load.seconds, share) for name, load in loads.items() if name != client)

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
