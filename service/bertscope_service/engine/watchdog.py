"""Detects that a device's thread hangs in its work."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from weakref import WeakSet

from bertscope_service.engine.lease import Call
from bertscope_service.engine.rate_estimate import RateEstimate
from bertscope_service.engine.rows import Row, longest

MAX_STEP_SECONDS = 2.0
"""The most time that one check adds. If more time has passed since the last check, the whole process was paused, and the
device's thread with it: by a signal, a debugger, or a pause of its machine."""

_abandoned: WeakSet[threading.Thread] = WeakSet()


@dataclass(slots=True, eq=False)
class Work:
    """A batch, or a call of a lease, that may take `bound` seconds; `seconds` is the time that it was seen running."""

    name: str
    bound: float
    seconds: float = 0.0


class Watchdog:
    """Knows the current work of a device's thread. That thread calls `batch` and `call`; another one calls `check`
    periodically."""

    def __init__(self, rates: RateEstimate, limit_seconds: float) -> None:
        """Work that takes less than `limit_seconds` never counts as stalled; with 0, no work does."""
        self._rates = rates
        self._limit = limit_seconds
        self._work: Work | None = None
        self._seen: Work | None = None
        self._checked = 0.0

    def batch(self, rows: Sequence[Row]) -> AbstractContextManager[None]:
        """Watches a batch while it runs."""
        row, tokens = rows[0], len(rows) * longest(rows)
        bound = self._rates.longest(row.encoder, tokens, (row.job.priority, row.pace))
        return self._watch(f"a batch ({len(rows)} text{'s' * (len(rows) > 1)}, {tokens} tokens)", bound)

    def call(self, call: Call) -> AbstractContextManager[None]:
        """Watches a call of a lease while it runs."""
        bound = self._rates.longest(call.encoder, call.tokens) if call.encoder else 0.0
        return self._watch("a run of a benchmark", bound)

    def check(self, now: float) -> Work | None:
        """Returns the work that takes longer than it may, or None. `now` is a time.monotonic()."""
        work, step = self._work, min(MAX_STEP_SECONDS, now - self._checked)
        self._checked = now
        if work is not self._seen:
            self._seen = work  # it began at an unknown time since the last check, which does not count
        elif work is not None:
            work.seconds += step
        return work if work is not None and work.seconds > work.bound else None

    @contextmanager
    def _watch(self, name: str, seconds: float) -> Iterator[None]:
        self._work = Work(name, max(self._limit, seconds) if self._limit else math.inf)
        try:
            yield
        finally:
            self._work = None


def abandon(thread: threading.Thread) -> None:
    """Notes that nobody waits for a device's thread any more, though it still runs."""
    _abandoned.add(thread)


def hanging() -> bool:
    """Returns whether such a thread still runs. Native code can't be interrupted, and must not run while the interpreter and
    its libraries are torn down, so the process has to end without that."""
    return any(thread.is_alive() for thread in _abandoned)
