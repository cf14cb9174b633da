"""Searches a corpus for the words at which units of a model are largest, and keeps what a reply needs of it.

exBERT searches the tokens nearest to a head's or a state's in this way (Hoover et al. 2020, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.context_places import Corpus, Sample
from bertscope_service.analyses.observers.context_units import UnitKind, UnitSet
from bertscope_service.analyses.observers.contexts import PLACE_BITS, ContextsObserver, Found, Search
from bertscope_service.analyses.texts import check_finite
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_BYTES = 256 * 1024 * 1024
"""The most that a call keeps for its units."""

NO_PLACE = np.iinfo(np.int64).max
COUNTED_PLACES = 4
"""Bins of values are counted when so many places wait for each bin of a histogram: counting goes through all of it."""
COUNTED_UNITS = 256
"""The units whose bins are counted at a time: their histograms stay in the cache."""
MERGED_SHARE = 0.5
"""Values that wait are merged when there are so many for each place asked for."""


class SetSums:
    """The sums and the largest values of the units of one set: see bertscope.v1.ContextUnits. Arrays are [units, ...]."""

    def __init__(self, chosen: UnitSet, best: int, sample: Sample) -> None:
        self.set, self.sample = chosen, sample
        count, heads = len(chosen), chosen.kind is UnitKind.HEAD
        self.best = min(best, sample.count)
        self.sums, self.squares = np.zeros((2, count))
        self.histogram = np.zeros((count, len(chosen.bins)), dtype=np.int64)
        self.values = np.full((count, self.best), -np.inf, dtype=np.float32)
        self.places = np.full((count, self.best), NO_PLACE, dtype=np.int64)
        self.partners = np.zeros((count, self.best if heads else 0), dtype=np.int64)
        self.drawn = np.zeros((count, len(sample.keys)), dtype=np.float32)
        # The partners of pairs are the same for all heads.
        partners = heads and not chosen.pairs
        self.drawn_partners = np.zeros((count, len(sample.keys) if partners else 0), dtype=np.int64)
        self._bins: list[NDArray[np.uint8]] = []
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]] = []

    @staticmethod
    def bytes(chosen: UnitSet, best: int, sample: int) -> int:
        """Returns the memory of a set, bytes, approximately."""
        places = 2 if chosen.kind is UnitKind.HEAD else 1
        return len(chosen) * (4 * (1 + 2 * places) * best * 4 + 4 * places * sample + 8 * len(chosen.bins.edges) + 64)

    def add(self, found: Found, bounds: NDArray[np.float32]) -> None:
        """Adds what a batch gave, and raises the bounds, [units], when values are merged."""
        check_finite([found.sums], "values", "STATES_NOT_FINITE")
        self.sums += found.sums[0]
        self.squares += found.sums[1]
        if found.counted.dtype == np.uint8:
            self._bins.append(found.counted)
            if sum(map(len, self._bins)) >= COUNTED_PLACES * len(self.set.bins):
                self._count()
        else:
            self.histogram += found.counted
        self.drawn[:, found.drawn] = found.drawn_values.T
        units, places = found.flat % len(self.set), found.places[found.flat // len(self.set)]
        partners = found.partners
        if self.set.kind is UnitKind.HEAD:
            if not self.set.pairs:
                self.drawn_partners[:, found.drawn] = _in_text(self.sample.places[found.drawn], found.drawn_partners.T)
            partners = _in_text(places, partners)
        self._waiting.append((units, found.values, places, partners))
        if sum(len(waiting[0]) for waiting in self._waiting) >= MERGED_SHARE * self.values.size:
            self._merge()
            np.maximum(bounds, self.values[:, -1], out=bounds)

    def end(self) -> None:
        """Adds what still waits."""
        self._count()
        self._merge()

    def _count(self) -> None:
        """Counts the bins that wait."""
        units, bins = self.histogram.shape
        waiting = np.concatenate([np.zeros((0, units), dtype=np.uint8), *self._bins])
        self._bins.clear()
        for begin in range(0, units, COUNTED_UNITS):
            histogram = self.histogram[begin : begin + COUNTED_UNITS]
            flat = waiting[:, begin : begin + COUNTED_UNITS] + bins * np.arange(len(histogram))
            histogram += np.bincount(flat.ravel(), minlength=histogram.size).reshape(histogram.shape)

    def _merge(self) -> None:
        """Merges the values that wait with the largest so far."""
        if not self._waiting:
            return
        count, best = self.values.shape
        heads = self.set.kind is UnitKind.HEAD
        units, values, places, partners = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting.clear()
        units = np.concatenate([np.repeat(np.arange(count), best), units])
        values = np.concatenate([self.values.ravel(), values])
        places = np.concatenate([self.places.ravel(), places])
        order = _order(units, values, places)
        starts = np.searchsorted(units[order], np.arange(count))
        order = order[starts[:, None] + np.arange(best)]
        self.values, self.places = values[order], places[order]
        if heads:
            self.partners = np.concatenate([self.partners.ravel(), partners])[order]


def _order(units: NDArray[np.int64], values: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.intp]:
    """Returns the order by units, by values, descending, and by places."""
    # As integers, the bits of floats that are not negative are in their order; those of negative ones in the reverse.
    bits = (values + np.float32(0)).view(np.int32).astype(np.int64)
    keys = (units << 32) - (bits ^ ((bits >> 31) & 0x7FFFFFFF))
    order = np.argsort(keys)
    # A sort by several keys takes three times as long, and only equal values need it: a corpus has some sentences twice.
    found = keys[order]
    equal = np.diff(found) == 0
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    own = order[tied]
    order[tied] = own[np.lexsort((places[own], found[tied]))]
    return order


def _in_text(places: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the places of words of the texts in which some places are."""
    return (places >> PLACE_BITS << PLACE_BITS) | words


class ContextsPlan:
    """The rows of a search, and the sums that their results are added to.

    Raises InvalidArgument for more units and places than fit into memory.
    """

    def __init__(self, sets: Sequence[UnitSet], corpus: Corpus, best: int) -> None:
        self.corpus = corpus
        samples = [corpus.pairs if one.pairs else corpus.words for one in sets]
        self.bytes = sum(SetSums.bytes(one, best, len(sample.keys)) for one, sample in zip(sets, samples, strict=True))
        if self.bytes > MAX_BYTES:
            message = (
                f"{sum(map(len, sets))} units with so many places take {self.bytes} bytes and one call takes {MAX_BYTES}; "
                "name fewer units, or ask for fewer places"
            )
            raise InvalidArgument("best", message, "CONTEXTS_TOO_LARGE", limit=MAX_BYTES)
        self.sums = [SetSums(one, best, sample) for one, sample in zip(sets, samples, strict=True)]
        self._searched = [number for number, sample in enumerate(samples) if sample.count]
        chosen = [sets[number] for number in self._searched]
        self._search = Search(chosen, best, [np.full(len(one), -np.inf, dtype=np.float32) for one in chosen])
        self.rows: list[tuple[TokenSequence, Observer]] = [
            # Neighbours of one length, few of which run ahead, fill batches without padding.
            (sequence, ContextsObserver(self._search, places))
            for sequence, places in sorted(corpus.rows, key=lambda row: len(row[0]))
        ]

    def add(self, found: Sequence[tuple[int, Found]]) -> None:
        """Adds what a batch gave. Raises FailedPrecondition for values that are not finite."""
        for number, one in found:
            self.sums[self._searched[number]].add(one, self._search.bounds[number])

    def end(self) -> None:
        """Adds what waits, when all rows are added."""
        for sums in self.sums:
            sums.end()
