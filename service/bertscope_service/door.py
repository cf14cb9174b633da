"""Turns calls away before their requests are read: when too many run, and when their client has too much waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bertscope_service.errors import Overloaded, ServiceError
from bertscope_service.metrics import Metrics

PROBES = frozenset({"ServerLive", "ServerReady", "ModelReady"})
"""The Open Inference Protocol's questions after the server's state: answered also when it is full, or stops."""

INTERACTIVE = frozenset({"FillMask", "Classify", "ExtractAttention", "ModelInfer"})
"""Methods whose rows wait in the queue as interactive ones."""

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 30.0
SUMMARY_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Most calls at a time: of all clients together, and of each; 0 means no limit."""

    all: int
    client: int


class Door:
    """Counts the calls at work. `crowded` says why interactive calls of a client are turned away now, if so."""

    def __init__(self, limits: CallLimits, metrics: Metrics, crowded: Callable[[str, float | None], Overloaded | None]) -> None:
        self._limits = limits
        self._rejected = {reason: metrics.rejected.labels(reason.lower()) for reason in ("SERVER_LIMIT", "CLIENT_LIMIT")}
        self._crowded = crowded
        self._running = 0
        self._clients: defaultdict[str, int] = defaultdict(int)
        self._call_seconds = 0.0

    @contextmanager
    def passed(self, method: str, client: str, remaining: float | None) -> Iterator[None]:
        """Be inside for the time of a call, with so many seconds to its deadline. Raises Overloaded at once if it may not
        begin."""
        if method in PROBES:
            yield
            return
        self._check(method, client, remaining)
        began = time.perf_counter()
        self._running += 1
        self._clients[client] += 1
        try:
            yield
        finally:
            self._running -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]
            self._call_seconds += 0.1 * (time.perf_counter() - began - self._call_seconds)

    def _check(self, method: str, client: str, remaining: float | None) -> None:
        limits, mine = self._limits, self._clients.get(client, 0)
        if limits.client and mine >= limits.client:
            message = f"{mine} calls of this client are at work, as many as this server lets one have at a time"
            raise self._full("CLIENT_LIMIT", f"{message}; wait for one to end, or put more texts into each", mine)
        if limits.all and self._running >= limits.all:
            message = f"{self._running} calls are at work, as many as this server takes; try again later, or ask another server"
            raise self._full("SERVER_LIMIT", message, self._running)
        if method in INTERACTIVE:
            refusal = self._crowded(client, remaining)
            if refusal is not None:
                raise refusal

    def _full(self, reason: str, message: str, running: int) -> Overloaded:
        self._rejected[reason].inc()
        # One of so many calls ends in about this time.
        wait = min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, self._call_seconds / running))
        return Overloaded(message, reason, wait, calls=running)


class RefusalLog:
    """Says how many calls were refused, and why, in a line for each second in which there were any: there may be thousands."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, refusal: ServiceError) -> None:
        """A call was refused. On the event loop."""
        if not self._counts:
            asyncio.get_running_loop().call_later(SUMMARY_SECONDS, self._say)
        self._counts[refusal.reason] += 1

    def _say(self) -> None:
        reasons = ", ".join(f"{reason} {count}" for reason, count in self._counts.most_common())
        logger.warning("calls refused within %g s: %s", SUMMARY_SECONDS, reasons)
        self._counts.clear()
