"""A device without a thread, on a simulated clock: it runs what the queue gives it, for as long as it is said to take."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bertscope_service.engine.admission import Admission
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.errors import Overloaded

from tests.support.fakes import FakeEncoder, SumObserver, job_of

BUDGET = 100
"""Most tokens in a batch."""

KINDS = {name: SumObserver(group=name) for name in ("fast", "slow")}
TOKEN_SECONDS = {"fast": 0.001, "slow": 0.015}
"""What a token costs: as much apart as a small and a large model."""

BATCH_SECONDS = BUDGET * max(TOKEN_SECONDS.values())
"""Longest batch of rows within the budget."""


def cost(row: Row) -> float:
    return TOKEN_SECONDS[str(row.observer.group)]


@dataclass(frozen=True)
class Arrival:
    """A job that comes at some time, seconds."""

    at: float
    client: str
    lengths: Sequence[int] = (10,)
    kind: str = "fast"
    priority: Priority = Priority.INTERACTIVE
    patience: float | None = None
    """Seconds from then to its deadline."""


class Simulation:
    """The queue, the rules of admission and a clock. Times are in seconds."""

    def __init__(self, limit_tokens: int = 10_000, limit_seconds: float = 1e9) -> None:
        self.now = 0.0
        self.queue = RowQueue(cost)
        self.admission = Admission("cpu", limit_tokens, limit_seconds, BUDGET)
        self.encoder = FakeEncoder()
        self.refused: list[tuple[Job, Overloaded]] = []
        self.arrived: dict[Job, float] = {}
        self.waits: dict[Job, float] = {}
        """How long each job took that was answered."""
        self.served: defaultdict[str, float] = defaultdict(float)
        self.order: list[Priority] = []
        self._left: dict[Job, int] = {}

    def job(self, arrival: Arrival) -> Job:
        deadline = None if arrival.patience is None else self.now + arrival.patience
        observer, lengths = KINDS[arrival.kind], list(arrival.lengths)
        job = job_of(
            self.encoder, lengths, client=arrival.client, priority=arrival.priority, deadline=deadline, observer=observer
        )
        job.token_seconds = cost(job.rows[0])
        return job

    def offer(self, arrival: Arrival) -> Job:
        """A job comes now; whether it may wait is seen in `refused`."""
        job = self.job(arrival)
        refusal = self.admission.refuse(self.queue.backlog, job, self.now)
        if refusal is not None:
            self.refused.append((job, refusal))
            return job
        self.arrived[job], self._left[job] = self.now, len(job.rows)
        self.queue.push(job)
        return job

    def step(self) -> float:
        """Run the next batch; how long it took, 0 if none waits."""
        taken = self.queue.take(BUDGET, self.now, _batch_tokens)
        if not taken.rows:
            return 0.0
        self.order.append(taken.rows[0].job.priority)
        seconds = sum(len(row.sequence) for row in taken.rows) * cost(taken.rows[0])
        self.now += seconds
        for row in taken.rows:
            self.served[row.job.client] += len(row.sequence) * cost(row)
            self._left[row.job] -= 1
            if not self._left[row.job]:
                self.waits[row.job] = self.now - self.arrived[row.job]
        return seconds


def _batch_tokens(row: Row, *, halved: bool) -> int:
    return BUDGET // (2 if row.job.priority is Priority.BULK else 1) // (1 + halved)
