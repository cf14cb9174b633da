"""How fast a device runs rows of each kind: what it charges clients for them, and how long it will take."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.rows import Priority, Row

BULK_BATCH_SECONDS = 0.05
"""A batch of bulk rows should not take longer: an interactive call may have to wait for one."""

MIN_BULK_TOKENS = 128
"""Smaller batches than this waste the device."""

NOMINAL_TOKEN_SECONDS = 1e-4
"""What a token costs as long as no row of its encoder ran."""

KINDS = 64
"""So many kinds of rows are remembered of an encoder; callers choose what makes a kind."""

NEWS_SHARE = 0.2
"""How much a batch that left others waiting counts in the rate at which a backlog runs."""

Key: TypeAlias = tuple[Priority, Hashable]


@dataclass(slots=True)
class Rate:
    """Tokens per second: of the last batches, of the best of them, and of those that left others waiting (0: none did yet)."""

    last: float
    best: float
    busy: float = 0.0

    def note(self, rate: float, *, busy: bool) -> None:
        """Another batch ran at this rate."""
        self.last = rate + 0.5 * (self.last - rate)
        self.best = max(rate, self.best)
        if busy:
            self.busy += (NEWS_SHARE if self.busy else 1.0) * (rate - self.busy)


class Pace:
    """The rates of each encoder's rows, by priority and kind: bulk batches are larger. Keeps no encoder alive."""

    def __init__(self) -> None:
        self._rates: WeakKeyDictionary[Encoder, dict[Key, Rate]] = WeakKeyDictionary()

    def note(self, encoder: Encoder, priority: Priority, kind: Hashable, rate: float, *, busy: bool = False) -> None:
        """A batch of such rows ran at `rate` tokens per second; `busy`: other rows waited meanwhile."""
        rates = self._rates.setdefault(encoder, {})
        known = rates.pop((priority, kind), None) or Rate(rate, rate)
        known.note(rate, busy=busy)
        rates[priority, kind] = known  # the last used kind is the last in line to be forgotten
        if len(rates) > KINDS:
            del rates[next(iter(rates))]

    def bulk_tokens(self, row: Row) -> int:
        """How many tokens of bulk rows like this one a batch may have, going by how fast their last batches were.

        Rows that run one layer are ten times as fast as those that run all; the first ones of a kind go by the slowest kind.
        """
        rates = self._rates.get(row.encoder, {})
        known = rates.get((Priority.BULK, row.kind))
        slowest = min((rate.last for (priority, _), rate in rates.items() if priority is Priority.BULK), default=0.0)
        return max(MIN_BULK_TOKENS, int((known.last if known else slowest) * BULK_BATCH_SECONDS))

    def charge(self, row: Row) -> float:
        """Seconds that a token of such rows costs, by their last batches; of a new kind, as much as of the slowest kind."""
        rates = self._rates.get(row.encoder)
        if not rates:
            return NOMINAL_TOKEN_SECONDS
        known = rates.get((row.job.priority, row.kind))
        return 1 / (known.last if known else min(rate.last for rate in rates.values()))

    def expect(self, row: Row) -> float:
        """Seconds that a token of such rows takes while others wait, 0 if none ran yet: nobody is refused on a guess.

        Goes by the batches of a backlog, and as long as there was none by the best rate: when few wait, batches are small and
        slow, and a backlog runs in large ones.
        """
        known = self._rates.get(row.encoder, {}).get((row.job.priority, row.kind))
        return 1 / (known.busy or known.best) if known else 0.0
