"""Records how the time of a traced call was spent, as plain times from which a tracer makes spans."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

MAX_NOTES = 32
"""The most waits, and the most batches, recorded per call: a sweep has thousands of each."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of the call's rows for a device, from `began` to `ended`, time.perf_counter()."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class BatchRun:
    """A batch with rows of the call: the device started it at `began`, its layers had run at `advanced`, and its results were
    delivered at `ended`, time.perf_counter().

    On a CPU, reductions after the last layer come after `advanced`. On a GPU they run in the same stream, which the host can't
    observe, so `advanced` is when all results were on the host.
    """

    device: str
    began: float
    advanced: float
    ended: float
    own_rows: int
    rows: int
    tokens: int
    padding_tokens: int


@dataclass(slots=True, eq=False)
class Timeline:
    """The waits and batches of one call. Its loop and the devices' threads add to it; it is read when the call has ended."""

    waits: list[Wait] = field(default_factory=list)
    batches: list[BatchRun] = field(default_factory=list)
    batch_count: int = 0
    """The number of all batches, including those not recorded."""

    def waited(self, wait: Wait) -> None:
        """Records a wait."""
        if len(self.waits) < MAX_NOTES:
            self.waits.append(wait)

    def ran(self, batch: BatchRun) -> None:
        """Records a batch that ended."""
        self.batch_count += 1
        if len(self.batches) < MAX_NOTES:
            self.batches.append(batch)


current: ContextVar[Timeline | None] = ContextVar("timeline", default=None)
"""The timeline of the call that a task answers; None if it is not traced."""
