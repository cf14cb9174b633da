"""Arranges heads by how differently they attend (Clark et al. 2019, section 6): coordinates and clusters."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from bertscope.errors import invalid_argument
from bertscope.questions.attention.sums import divided
from bertscope.values import validation
from bertscope.values.display import record

__all__ = ["HeadDistances"]

Matrix = npt.NDArray[np.float64]
CLUSTERS = 8
"""The usual number of clusters."""


@record(eq=False)
class HeadDistances:
    """Jensen-Shannon divergences between heads, n = layers * heads of them, ordered by layer and then by head.

    A distance is the square root of the mean divergence: unlike the divergence itself, it obeys the triangle inequality, and
    heads can be placed in space exactly by it.
    """

    heads: tuple[tuple[int, int], ...]
    """Layer and head of each row and column."""
    texts: int
    """The texts."""
    sums: Matrix
    """[n, n], the sums over the texts of the divergence between the rows of two heads, nats."""

    def divergences(self) -> Matrix:
        """Returns [n, n]: the mean divergences, 0 to ln 2 nats."""
        return divided(self.sums, self.texts)

    def distances(self) -> Matrix:
        """Returns [n, n]: the square roots of the mean divergences."""
        return np.asarray(np.sqrt(np.maximum(self.divergences(), 0)))

    def coordinates(self, dimensions: SupportsIndex = 2) -> Matrix:
        """Returns [n, dimensions]: the places whose distances come closest to those of the heads, by classical scaling.

        The first dimension spreads the heads most. The sign of a dimension means nothing; the largest coordinate of each is
        positive.
        """
        count = validation.positive("dimensions", dimensions)
        squared = np.maximum(self.divergences(), 0)
        centred = -0.5 * (squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean())
        values, vectors = np.linalg.eigh((centred + centred.T) / 2)
        places = vectors[:, ::-1][:, :count] * np.sqrt(np.maximum(values[::-1][:count], 0))
        signs = np.sign(places[np.abs(places).argmax(0), np.arange(places.shape[1])])
        places *= np.where(signs == 0, 1, signs)
        return np.pad(places, ((0, 0), (0, count - places.shape[1])))

    def clusters(self, number: SupportsIndex = CLUSTERS) -> npt.NDArray[np.int64]:
        """Returns [n]: the cluster of each head, by average linkage of the distances. Cluster 0 has the most heads.

        Raises InvalidArgument unless `number` is 1 to n.
        """
        count = validation.positive("number", number)
        if count > len(self.heads):
            raise invalid_argument("number", f"must be 1 to {len(self.heads)}, the number of heads, not {count}")
        labels = average_linkage(self.distances(), count)
        # By size; of equal ones, that of the first head comes first.
        found, first, sizes = np.unique(labels, return_index=True, return_counts=True)
        places = np.empty(len(found), np.int64)
        places[np.lexsort((first, -sizes))] = np.arange(len(found))
        return places[np.searchsorted(found, labels)]

    def __add__(self, other: HeadDistances) -> HeadDistances:
        return HeadDistances(self.heads, self.texts + other.texts, self.sums + other.sums)


def average_linkage(distances: Matrix, number: int) -> npt.NDArray[np.int64]:
    """Returns a label of each of n points: the two clusters whose points are closest on average are joined until `number` are
    left."""
    between = distances.astype(np.float64)  # a copy
    size = len(between)
    between[np.diag_indices(size)] = np.inf
    labels = np.arange(size)
    weights = np.ones(size)
    for _ in range(size - number):
        kept, joined = sorted(map(int, np.unravel_index(between.argmin(), between.shape)))
        share = weights[kept] / (weights[kept] + weights[joined])
        row = share * between[kept] + (1 - share) * between[joined]
        between[kept], between[:, kept] = row, row
        between[joined], between[:, joined] = np.inf, np.inf
        between[kept, kept] = np.inf
        weights[kept] += weights[joined]
        labels[labels == joined] = kept
    return labels
