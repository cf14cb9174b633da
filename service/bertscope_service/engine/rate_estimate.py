"""Estimates how fast a device runs rows of each pace, to charge clients for them and to predict waiting times."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.rows import Priority, Row, tokens_of

BATCH_SECONDS = {Priority.INTERACTIVE: 0.2, Priority.BULK: 0.05}
"""A batch should not take longer: the next interactive call may have to wait for it. Larger batches are a little faster, so
interactive rows get more time."""

MIN_BATCH_TOKENS = 128
"""Smaller batches than this waste the device; where that was measured, as on a GPU, batches below its saturation do."""

LEAST_FACTOR = {False: 4, True: 2}
"""A bulk batch has MIN_BATCH_TOKENS only if they take at most so many times as long as it should; less for one that runs just
after an interactive batch (True)."""

NOMINAL_TOKEN_SECONDS = 1e-4
"""The assumed cost of a token as long as no row of its encoder ran."""

KNOWN_BATCHES = 3
"""Nobody is rejected by an estimate from fewer batches than this: the first ones may take a hundred times as long as later
ones."""

KINDS = 64
"""The number of paces of rows remembered per encoder; callers choose what makes a pace."""

NEW_RATE_WEIGHT = 0.2
"""The weight of a batch that left others waiting in the average rate of a backlog."""

STALL_FACTOR = 20
"""A batch may take this many times its tokens' expected time before its device counts as stalled: the machine may be busy with
other work, and attention takes more for a token of a long text."""

UNKNOWN_TOKEN_SECONDS = 0.002
"""The expected time of a token for that purpose as long as no row of its encoder ran."""

Key: TypeAlias = tuple[Priority, Hashable]


@dataclass(slots=True)
class Rate:
    """Tokens per second: of the last batches, of the best of them, and of batches that left others waiting (0: none did
    yet); and the number of batches."""

    last: float
    best: float
    busy: float = 0.0
    batches: int = 0

    def note(self, rate: float, *, busy: bool) -> None:
        """Records a batch that ran at this rate."""
        self.batches += 1
        self.last = rate + 0.5 * (self.last - rate)
        self.best = max(rate, self.best)
        if busy:
            self.busy += (NEW_RATE_WEIGHT if self.busy else 1.0) * (rate - self.busy)


class RateEstimate:
    """The rates of each encoder's rows, by priority and pace, for bulk batches are larger. It keeps no encoder alive."""

    def __init__(self) -> None:
        self._rates: WeakKeyDictionary[Encoder, dict[Key, Rate]] = WeakKeyDictionary()
        self._busy_tokens = self._busy_seconds = 0.0
        self._saturation: WeakKeyDictionary[Encoder, int] = WeakKeyDictionary()

    def note(self, encoder: Encoder, priority: Priority, pace: Hashable, rate: float, *, busy: bool = False) -> None:
        """Records a batch of such rows that ran at `rate` tokens per second; `busy`: other rows waited meanwhile."""
        rates = self._rates.setdefault(encoder, {})
        known = rates.pop((priority, pace), None) or Rate(rate, rate)
        known.note(rate, busy=busy)
        rates[priority, pace] = known  # the pace used last is forgotten last
        if len(rates) > KINDS:
            del rates[next(iter(rates))]

    def note_busy(self, tokens: int, seconds: float) -> float:
        """Records a batch, of any rows, that left others waiting. Returns the tokens per second of the last of them, together:
        a batch that takes long counts for more."""
        kept = 1 - NEW_RATE_WEIGHT
        self._busy_tokens = kept * self._busy_tokens + tokens
        self._busy_seconds = kept * self._busy_seconds + seconds
        return self._busy_tokens / self._busy_seconds

    def note_saturation(self, encoder: Encoder, tokens: int) -> None:
        """Records that batches of up to so many tokens take no longer than small ones."""
        self._saturation[encoder] = tokens

    def saturation(self, row: Row) -> int:
        """Returns the tokens of a batch of such rows below which it takes no longer than a smaller one; 0 if not measured."""
        return self._saturation.get(row.encoder, 0)

    def batch_tokens(self, row: Row, *, halved: bool = False) -> int:
        """Returns how many tokens a batch of rows like this one may have, from the rate of their priority's last batches;
        `halved`: in half the time.

        Rows that run one layer are ten times as fast as rows that run all; a new pace is assumed to be that of the slowest.
        After a few small batches a GPU's rate is low, because each takes as long as one of its saturation, which always runs.
        """
        own = row.job.priority
        rates = self._rates.get(row.encoder, {})
        known = rates.get((own, row.pace))
        slowest = min((rate.last for (priority, _), rate in rates.items() if priority is own), default=0.0)
        tokens = (known.last if known else slowest) * BATCH_SECONDS[own] / (1 + halved)
        least = MIN_BATCH_TOKENS
        if known and own is Priority.BULK:
            least = min(least, int(tokens * LEAST_FACTOR[halved]))
        return max(least, self.saturation(row), int(tokens))

    def charge(self, row: Row) -> float:
        """Returns the seconds that a token of such rows costs, from their last batches; a new pace costs as much as the slowest
        one."""
        rates = self._rates.get(row.encoder)
        if not rates:
            return NOMINAL_TOKEN_SECONDS
        known = rates.get((row.job.priority, row.pace))
        return 1 / (known.last if known else min(rate.last for rate in rates.values()))

    def soonest(self, rows: Sequence[Row]) -> float:
        """Returns the seconds that a batch takes by the faster of two rates, that of the last batches and that of a backlog;
        0 while few ran."""
        return tokens_of(rows) * min(self.charge(rows[0]), self.expect(rows[0]))

    def longest(self, encoder: Encoder, tokens: int, key: Key | None = None) -> float:
        """Returns the most seconds that these tokens of an encoder (padding included) may take, from rows of this pace or of
        the slowest."""
        rates = self._rates.get(encoder)
        if not rates:
            return STALL_FACTOR * tokens * UNKNOWN_TOKEN_SECONDS
        known = rates.get(key) if key else None
        return STALL_FACTOR * tokens / (known.last if known else min(rate.last for rate in rates.values()))

    def expect(self, row: Row) -> float:
        """Returns the seconds that a token of such rows takes while others wait, or 0 if few ran yet: nobody is rejected on a
        guess.

        The estimate uses batches of a backlog, and the best rate if there was no backlog yet: when few rows wait, batches are
        small and slow, and a backlog runs in large ones.
        """
        known = self._rates.get(row.encoder, {}).get((row.job.priority, row.pace))
        return 1 / (known.busy or known.best) if known and known.batches >= KNOWN_BATCHES else 0.0
