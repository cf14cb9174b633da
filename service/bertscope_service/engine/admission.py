"""Decides whether a job may wait for a device, and how it is rejected if not. Pure: no threads, no clock.

Clients share the queue by dynamic thresholds (A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for
Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2), 1998): a client may have waiting a multiple of the
free tokens, so the greediest clients together never take all of them, and a single client may use most of them.

Bulk rows take nothing from interactive ones: they wait in the part of the queue that interactive calls leave free.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertscope_service.engine.backlog import Backlog, Load
from bertscope_service.engine.rows import Job, Priority
from bertscope_service.errors import Overloaded

MULTIPLE_OF_FREE = 4
"""A client may have this many times the free tokens waiting: 4/5 of the queue if it is the only client."""

ESTIMATE_ERROR = 1.5
"""The estimate of a job's own time may be wrong by this factor. If nobody else waits, a job is rejected only when its estimate
exceeds the time to its deadline by more than that."""

MARGIN = 1.5
"""If others wait, this many times the estimate has to fit before the deadline. With less, a long queue settles at the point
where each job ends a moment too late: the device works on, and nobody gets an answer."""

BATCHES_AHEAD = 3
"""A job may have to wait for this many batches: the running one, and later rows that share a batch with others of their
length."""

EARLY = 0.05
"""Before its request is read, a client that has rows waiting already is assumed to ask for this share of the bounds."""

PATIENCE = 2.0
"""A job that has not begun after this many times the longest wait is rejected after all: later clients share the device with
it."""

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 30.0
UNKNOWN_RETRY_SECONDS = 1.0
"""The retry delay while the device's rate is unknown."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The bounds of a device's queue: tokens that wait, seconds that a job may have to wait for others, and tokens in a
    batch."""

    device: str
    limit_tokens: int
    limit_seconds: float
    batch_tokens: int

    def refuse(self, backlog: Backlog, job: Job, now: float) -> Overloaded | None:
        """Returns why a job may not wait, or None if it may. `now` is a time.monotonic()."""
        remaining = None if job.deadline is None else job.deadline - now
        seconds = job.tokens * job.token_seconds
        return self._refuse(backlog, job.client, job.priority, job.tokens, seconds, remaining)

    def refuse_before_reading(self, backlog: Backlog, client: str, remaining: float | None) -> Overloaded | None:
        """Returns why an interactive job of a client may not wait, or None if one might. Only the seconds to its deadline are
        known.

        A client that has rows waiting is assumed to ask for some of what the bounds allow. So it is rejected a little early,
        and under overload nearly all rejected calls are rejected before their requests are read.
        """
        early = EARLY if backlog.tokens_of(client, Priority.INTERACTIVE) else 0.0
        tokens = max(1, round(early * self.limit_tokens))
        seconds = early * min(self.limit_seconds, remaining or self.limit_seconds)
        return self._refuse(backlog, client, Priority.INTERACTIVE, tokens, seconds, remaining)

    @property
    def patience_seconds(self) -> float:
        """The longest time that a job really waits."""
        return PATIENCE * self.limit_seconds

    def give_up(self, backlog: Backlog) -> Overloaded:
        """Returns the error for a job that has waited `patience_seconds` in vain."""
        waited = f"this request has waited for {self.patience_seconds:g} s on {self.device}, and others share it now"
        return self._refusal("QUEUE_FULL", f"{waited}; try again later", backlog.up_to(Priority.INTERACTIVE).seconds)

    def _refuse(
        self, backlog: Backlog, client: str, priority: Priority, tokens: int, seconds: float, remaining: float | None
    ) -> Overloaded | None:
        waiting, own = backlog.up_to(priority), backlog.tokens_of(client, priority)
        free = self.limit_tokens - waiting.tokens
        if waiting.rows and tokens > free:
            # An empty queue takes any job, also one larger than the queue: it takes only its client's share from others.
            free += backlog.excess(client, priority, self.limit_tokens * MULTIPLE_OF_FREE // (MULTIPLE_OF_FREE + 1))
        if waiting.rows and tokens > free:
            return self._full(waiting, tokens - free, f"{waiting.tokens} tokens wait on {self.device}")
        if own and own + tokens > MULTIPLE_OF_FREE * free:
            # Rows that leave the queue free their tokens, and this client's share of them is its own.
            excess = (own + tokens - MULTIPLE_OF_FREE * free) / (MULTIPLE_OF_FREE + 1 / backlog.clients(priority))
            return self._full(waiting, excess, f"{own} of the {waiting.tokens} tokens that wait on {self.device} are yours")
        before = backlog.seconds_before(client, priority, seconds)
        if before > self.limit_seconds:
            message = f"{before:.2g} s of work go before this request on {self.device}, and {self.limit_seconds:g} s may"
            # Not `before`: while this client has nothing waiting, it stays the same until others have less than it asks for.
            return self._refusal("QUEUE_FULL", f"{message}; try again later", waiting.seconds - self.limit_seconds)
        return None if remaining is None or remaining <= 0 else self._too_late(waiting, before, seconds, remaining)

    def _full(self, waiting: Load, excess_tokens: float, state: str) -> Overloaded:
        # An empty queue takes any job.
        leaving = min(1.0, excess_tokens / waiting.tokens)
        wait = leaving * waiting.seconds if waiting.seconds else UNKNOWN_RETRY_SECONDS
        return self._refusal("QUEUE_FULL", f"{state} and the queue takes {self.limit_tokens}; try again later", wait)

    def _too_late(self, waiting: Load, before: float, seconds: float, remaining: float) -> Overloaded | None:
        """Returns the rejection of a job that takes this many seconds behind others, unless it is likely to end in time."""
        needed, fits = before + seconds, ESTIMATE_ERROR * remaining
        if waiting.tokens and waiting.seconds:
            needed += min(waiting.seconds, BATCHES_AHEAD * self.batch_tokens * waiting.seconds / waiting.tokens)
            fits = remaining / MARGIN
        if needed <= fits:
            return None
        message = (
            f"an answer takes {needed:.2g} s on {self.device} now, and the deadline leaves {remaining:.2g} s; "
            "give it more time, or try again later"
        )
        return self._refusal("DEADLINE_UNREACHABLE", message, needed - fits)

    def _refusal(self, reason: str, message: str, wait: float) -> Overloaded:
        retry_after = min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, wait))
        return Overloaded(message, reason, retry_after, device=self.device)
