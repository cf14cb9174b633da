"""Where the time of one call went, for those who trace it: plain moments, from which others make spans."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

MAX_NOTES = 32
"""So many waits, and so many batches, are noted of a call: a sweep has thousands of each."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Rows of the call waited for a device, from `began` to `ended`, time.perf_counter()."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class BatchRun:
    """A batch with rows of the call: the device had time for it at `began`, its layers had run at `advanced`, and its results
    were dealt out at `ended`, time.perf_counter().

    On a CPU, what is reduced behind the last layer comes after `advanced`. On a GPU that runs in the same stream without the
    host's knowing, so `advanced` is when everything was back on the host.
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
    """Of all batches, also those that were not noted."""

    def waited(self, wait: Wait) -> None:
        """Some rows waited."""
        if len(self.waits) < MAX_NOTES:
            self.waits.append(wait)

    def ran(self, batch: BatchRun) -> None:
        """A batch ended."""
        self.batch_count += 1
        if len(self.batches) < MAX_NOTES:
            self.batches.append(batch)


current: ContextVar[Timeline | None] = ContextVar("timeline", default=None)
"""The timeline of the call that a task answers; None if nobody traces it."""
