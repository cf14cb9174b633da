"""Who may wait for a device, and what those hear who may not. Pure: no threads, no clock.

The room of the queue is shared by dynamic thresholds (A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for
Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2), 1998): what a client may have waiting is a multiple of
the room that is left, so the greediest clients together never take all of it, and a client alone may use most of it.

Rows that go behind a job take none of its room: bulk work waits in what interactive calls leave, and keeps none of them out.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertscope_service.engine.backlog import Backlog, Load
from bertscope_service.engine.rows import Job, Priority
from bertscope_service.errors import Overloaded

SHARE_OF_ROOM = 4
"""A client may have waiting so many times the room that is left: alone, 4/5 of the queue."""

DOUBT = 1.5
"""How far the estimate of a job's own time may err: where nobody waits, only a deadline so much too early is out of reach."""

MARGIN = 1.5
"""So many times the estimate has to fit before a deadline where others wait. With less, a long queue settles at the point where
each job ends a moment too late: the device works on, and nobody gets an answer."""

BATCHES_AHEAD = 3
"""A job may have to wait for the batch at work, and for rows that came later and ride along with others of their length."""

EARLY = 0.05
"""What a client is taken to ask for before its request is read, as a share of the bounds, if it has some of it already."""

PATIENCE = 2.0
"""A job that has not begun after so many times the longest wait is turned away after all: others came and share with it."""

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 30.0
UNKNOWN_RETRY_SECONDS = 1.0
"""When to come back if it is not known yet how fast the device is."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The bounds of a device's queue: tokens that wait, and seconds that a job may have to wait for others; and how many tokens
    a batch has at most."""

    device: str
    limit_tokens: int
    limit_seconds: float
    batch_tokens: int

    def refuse(self, backlog: Backlog, job: Job, now: float) -> Overloaded | None:
        """Why a job may not wait; None if it may. `now` is a time.monotonic()."""
        remaining = None if job.deadline is None else job.deadline - now
        seconds = job.tokens * job.token_seconds
        return self._refuse(backlog, job.client, job.priority, job.tokens, seconds, remaining)

    def refuse_unheard(self, backlog: Backlog, client: str, remaining: float | None) -> Overloaded | None:
        """Why an interactive job of a client, of which nothing is known but the seconds to its deadline, may not wait; None if
        one might.

        A client that has rows waiting is taken to ask for some of what the bounds allow. So it is refused a little early, and
        of the many that are refused under overload nearly all are before their requests are read.
        """
        early = EARLY if backlog.tokens_of(client, Priority.INTERACTIVE) else 0.0
        tokens = max(1, round(early * self.limit_tokens))
        seconds = early * min(self.limit_seconds, remaining or self.limit_seconds)
        return self._refuse(backlog, client, Priority.INTERACTIVE, tokens, seconds, remaining)

    @property
    def patience_seconds(self) -> float:
        """Longest that a job really waits."""
        return PATIENCE * self.limit_seconds

    def give_up(self, backlog: Backlog) -> Overloaded:
        """What a job hears that has waited so long in vain."""
        waited = f"this request has waited for {self.patience_seconds:g} s on {self.device}, and others share it now"
        return self._refusal("QUEUE_FULL", f"{waited}; try again later", backlog.up_to(Priority.INTERACTIVE).seconds)

    def _refuse(
        self, backlog: Backlog, client: str, priority: Priority, tokens: int, seconds: float, remaining: float | None
    ) -> Overloaded | None:
        waiting, own = backlog.up_to(priority), backlog.tokens_of(client, priority)
        room = self.limit_tokens - waiting.tokens
        if waiting.rows and tokens > room:
            return self._full(waiting, tokens - room, f"{waiting.tokens} tokens wait on {self.device}")
        if own and own + tokens > SHARE_OF_ROOM * room:
            # What leaves the queue makes room, and this client's part of it is its own.
            excess = (own + tokens - SHARE_OF_ROOM * room) / (SHARE_OF_ROOM + 1 / backlog.clients(priority))
            return self._full(waiting, excess, f"{own} of the {waiting.tokens} tokens that wait on {self.device} are yours")
        before = backlog.seconds_before(client, priority, seconds)
        if before > self.limit_seconds:
            message = f"{before:.2g} s of work go before this request on {self.device}, and {self.limit_seconds:g} s may"
            # Not `before`: while this client has nothing waiting, that stays as it is until others have less than it asks for.
            return self._refusal("QUEUE_FULL", f"{message}; try again later", waiting.seconds - self.limit_seconds)
        return None if remaining is None or remaining <= 0 else self._too_late(waiting, before, seconds, remaining)

    def _full(self, waiting: Load, excess_tokens: float, state: str) -> Overloaded:
        # An empty queue takes any job.
        leaving = min(1.0, excess_tokens / waiting.tokens)
        wait = leaving * waiting.seconds if waiting.seconds else UNKNOWN_RETRY_SECONDS
        return self._refusal("QUEUE_FULL", f"{state} and the queue takes {self.limit_tokens}; try again later", wait)

    def _too_late(self, waiting: Load, before: float, seconds: float, remaining: float) -> Overloaded | None:
        """The refusal of a job that takes so many seconds behind others, unless it is likely to end in time."""
        needed, fits = before + seconds, DOUBT * remaining
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
