"""Correlations as means over items: values whose mean is the correlation, and whose spread is that of the correlation.

Each value is the correlation plus the item's influence on it: its first derivative in the item's weight (Hampel 1974). So an
interval of the mean of values, or of their differences between two runs, is one of the correlation, to the first order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-6
"""Predictions that differ by less, relative to the largest, are equal: float32 rounds a sum of many numbers so."""


def pearson_values(found: NDArray[np.float64], gold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns values [items] whose mean is Pearson's correlation of two series [items]; zeros if one is
    constant, `found` up to its rounding.

    Influence: Devlin, Gnanadesikan and Kettenring 1975, section 2.
    """
    if _constant(found) or gold.min() == gold.max():
        return np.zeros(len(found))
    first, second = _standardised(found), _standardised(gold)
    correlation = float((first * second).mean())
    values: NDArray[np.float64] = correlation + first * second - correlation * (first**2 + second**2) / 2
    return values


def spearman_values(found: NDArray[np.float64], gold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns values [items] whose mean is Spearman's rank correlation of two series [items]; zeros if one is
    constant, `found` up to its rounding.

    Equal numbers have their mean rank. An item also moves the ranks of others, which its influence counts (Croux and Dehon
    2010, section 3).
    """
    if _constant(found) or gold.min() == gold.max():
        return np.zeros(len(found))
    first, second = _Ranks(found), _Ranks(gold)
    both = first.places * second.places
    product = both - both.mean() + first.moved(second.places) + second.moved(first.places)
    spreads, correlation = 1.0, float(both.mean())
    relative = np.zeros(len(found))
    for ranks in (first, second):
        spread = float((ranks.places**2).mean())
        relative += (ranks.places**2 - spread + 2 * ranks.moved(ranks.places)) / spread
        spreads *= spread
    correlation /= np.sqrt(spreads)
    values: NDArray[np.float64] = correlation + product / np.sqrt(spreads) - correlation * relative / 2
    return values


class _Ranks:
    """The ranks of a series, as shares of its length. places: less their mean [items]."""

    def __init__(self, series: NDArray[np.float64]) -> None:
        _, self._group, counts = np.unique(series, return_inverse=True, return_counts=True)
        share = (np.cumsum(counts) - counts / 2)[self._group] / len(series)
        self.places: NDArray[np.float64] = share - share.mean()

    def moved(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the influence of each item, through the ranks of the others, on the mean of weighted ranks."""
        sums = np.bincount(self._group, weights)
        above = (sums.sum() - np.cumsum(sums) + sums / 2)[self._group] / len(weights)
        found: NDArray[np.float64] = above - above.mean()
        return found


def _constant(found: NDArray[np.float64]) -> bool:
    largest = np.abs(found).max()
    return bool(largest == 0 or np.ptp(found / largest) <= ROUNDING)


def _standardised(series: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = series / np.abs(series).max()  # Sums and squares of large numbers would be infinite.
    centred: NDArray[np.float64] = scaled - scaled.mean()
    found: NDArray[np.float64] = centred / np.sqrt((centred**2).mean())
    return found
