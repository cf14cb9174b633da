"""Load shedding: rejects calls before their requests are read, when too many run or when their client has too much waiting."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from bertscope_service.contract import Work
from bertscope_service.errors import Overloaded, ServiceError
from bertscope_service.observability.logs import Tally
from bertscope_service.observability.metrics import Metrics

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 30.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The most calls at a time, of all clients together and of each; 0 means no limit."""

    all: int
    client: int


class LoadShedder:
    """Counts the calls in flight. `overload` returns why interactive calls of a client are rejected now, or None."""

    def __init__(
        self, limits: CallLimits, metrics: Metrics, overload: Callable[[str, float | None], Overloaded | None]
    ) -> None:
        self._limits = limits
        self._rejected = {reason: metrics.rejected.labels(reason.lower()) for reason in ("SERVER_LIMIT", "CLIENT_LIMIT")}
        self._overload = overload
        self._running = 0
        self._clients: defaultdict[str, int] = defaultdict(int)
        self._call_seconds = 0.0
        self.refusing = False
        """True if the last call that might have been rejected was: the next one will probably be, too."""

    def admit(self, work: Work, client: str, remaining: float | None) -> Admitted:
        """Counts a call, with this many seconds to its deadline, until its `end`. Raises Overloaded at once if it may not
        begin."""
        counted = work is not Work.PROBE
        if counted:
            self.refusing = True
            self._check(work, client, remaining)
            self.refusing = False
            self._running += 1
            self._clients[client] += 1
        return Admitted(self if counted else None, client)

    def end(self, client: str, seconds: float) -> None:
        """Counts a call no longer, which took `seconds`."""
        self._running -= 1
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]
        self._call_seconds += 0.1 * (seconds - self._call_seconds)

    def _check(self, work: Work, client: str, remaining: float | None) -> None:
        limits, mine = self._limits, self._clients.get(client, 0)
        if limits.client and mine >= limits.client:
            message = f"{mine} calls of this client are running, the limit for one client"
            raise self._full("CLIENT_LIMIT", f"{message}; wait for one to end, or put more texts into each", mine)
        if limits.all and self._running >= limits.all:
            message = f"{self._running} calls are running, the limit of this server; try again later, or ask another server"
            raise self._full("SERVER_LIMIT", message, self._running)
        if work is Work.INTERACTIVE:
            refusal = self._overload(client, remaining)
            if refusal is not None:
                raise refusal

    def _full(self, reason: str, message: str, running: int) -> Overloaded:
        self._rejected[reason].inc()
        # One of this many calls ends in about this time.
        wait = min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, self._call_seconds / running))
        return Overloaded(message, reason, wait, calls=running)


class Admitted:
    """An admitted call, which counts until its `end`, or the end of a `with` block."""

    __slots__ = ("_began", "_client", "_load_shedder")

    def __init__(self, load_shedder: LoadShedder | None, client: str) -> None:
        """Without a `load_shedder`, nobody counts it."""
        self._load_shedder = load_shedder
        self._client = client
        self._began = time.perf_counter()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends it."""
        if self._load_shedder is not None:
            self._load_shedder.end(self._client, time.perf_counter() - self._began)


class RefusalLog:
    """Logs how many calls were rejected, and why, in one line for each second with rejections."""

    def __init__(self) -> None:
        self._tally = Tally("calls refused")

    def note(self, refusal: ServiceError) -> None:
        """Notes a rejected call. On the event loop."""
        self._tally.add(refusal.reason)
