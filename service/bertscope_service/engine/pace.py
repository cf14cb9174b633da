"""How large batches of bulk rows may be, so that nobody's interactive call feels them."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakKeyDictionary

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.rows import Row

BULK_BATCH_SECONDS = 0.05
"""A batch of bulk rows should not take longer: an interactive call may have to wait for one."""

MIN_BULK_TOKENS = 128
"""Smaller batches than this waste the device."""


class BulkPace:
    """How fast the last batches of each encoder's rows were, tokens per second, by the rows' keys. Keeps no encoder alive."""

    def __init__(self) -> None:
        self._rates: WeakKeyDictionary[Encoder, dict[Hashable, float]] = WeakKeyDictionary()

    def note(self, encoder: Encoder, kind: Hashable, rate: float) -> None:
        """A batch of such rows ran at `rate` tokens per second."""
        rates = self._rates.setdefault(encoder, {})
        rates[kind] = rate + 0.5 * (rates.get(kind, rate) - rate)

    def tokens(self, row: Row) -> int:
        """How many tokens of bulk rows like this one a batch may have, going by how fast their last batches were.

        Rows that run one layer are ten times as fast as those that run all; the first ones of a kind go by the slowest kind.
        """
        rates = self._rates.get(row.encoder)
        if rates is None:
            return MIN_BULK_TOKENS
        rate = rates.get(row.key) or min(rates.values())
        return max(MIN_BULK_TOKENS, int(rate * BULK_BATCH_SECONDS))
