"""Finds linear maps that erase classes from states: x - left right (x - mean).

LEACE (Belrose et al. 2023, "LEACE: Perfect linear concept erasure in closed form", theorem 4.3): with W the pseudo-inverse of
the square root of the states' covariance and z the classes as 0 and 1, right = U' W and left = W+ U, where the columns of U are
an orthonormal basis of the column space of W cov(x, z). Of all affine maps after which no linear probe tells the classes apart,
it moves states least, in every norm that an inner product gives.

INLP (Ravfogel et al. 2020, "Null it out", section 4): the orthogonal projection that takes away what linear probes read, probe
after probe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

NULL_VARIANCE = 1e-10
"""A direction in which states vary by a smaller share of the largest variance is null: it is rounding of float32 states, and
its inverse would make rounding large."""
NOTHING = 1e-8
"""A direction that correlates less with the classes is none; neither is one that a probe reads with a smaller share of its
weights."""


@dataclass(frozen=True, slots=True, eq=False)
class Eraser:
    """A map, float64: left [hidden, rank] and right [rank, hidden]; of rank 0 if there is nothing to erase."""

    left: NDArray[np.float64]
    right: NDArray[np.float64]

    @property
    def rank(self) -> int:
        return len(self.right)


class Moments:
    """Sums of states x of one layer and of their classes z: x, x x' and x z', float64, on the device of the states."""

    def __init__(self, mean: torch.Tensor, classes: int) -> None:
        """`mean`: near the mean of the states, float32 [hidden]: sums around it lose few digits."""
        self._mean = mean.double()
        self._squares = self._mean.new_zeros((len(mean), len(mean)))
        self._sums = self._mean.new_zeros((classes, len(mean)))
        self._counts = self._mean.new_zeros(classes)

    def add(self, states: torch.Tensor, labels: torch.Tensor) -> None:
        """Adds some states, [spans, hidden], with the classes of their spans, int64 [spans]."""
        away = states.double() - self._mean
        of_class = torch.nn.functional.one_hot(labels, len(self._counts)).double()
        self._squares.addmm_(away.T, away)
        self._sums.addmm_(of_class.T, away)
        self._counts += of_class.sum(dim=0)

    def covariances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the covariance of the states, [hidden, hidden], and theirs with the classes, [hidden, classes]."""
        total = self._counts.sum()
        away, shares = self._sums.sum(dim=0) / total, self._counts / total
        own = self._squares / total - torch.outer(away, away)
        cross = self._sums.T / total - torch.outer(away, shares)
        return own.cpu().numpy(), cross.cpu().numpy()


def leace(own: NDArray[np.float64], cross: NDArray[np.float64]) -> Eraser:
    """Returns the map of LEACE from the covariance of states and theirs with the classes. Its rank is at most the number of
    classes less one."""
    variances, directions = np.linalg.eigh(own)
    kept = variances > NULL_VARIANCE * max(float(variances[-1]), 0.0)
    roots, directions = np.sqrt(variances[kept]), directions[:, kept]
    # Of whitened states: at most a class's standard deviation, .5.
    basis = _column_space((directions / roots).T @ cross, NOTHING, most=cross.shape[1] - 1)
    return Eraser((directions * roots) @ basis, basis.T @ (directions / roots).T)


def with_probe(basis: NDArray[np.float64], weights: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Returns an orthonormal basis, [hidden, rank], with the directions that a probe reads beside those of `basis`: weights
    [hidden, classes]. Of more than `most` directions, those that it reads most are kept."""
    # All classes' scores may move together without changing what is answered.
    read = weights - weights.mean(axis=1, keepdims=True)
    least = NOTHING * float(np.linalg.norm(read))
    new = _column_space(read - basis @ (basis.T @ read), least, most=min(most - basis.shape[1], weights.shape[1] - 1))
    # Once more: rounding of the first subtraction is large where little is left.
    new, _ = np.linalg.qr(new - basis @ (basis.T @ new))
    return np.concatenate([basis, new], axis=1)


def random_subspace(hidden: int, rank: int, seed: int, layer: int) -> Eraser:
    """Returns the projection that takes a random subspace away, the same for the same numbers."""
    drawn = np.random.default_rng([seed, layer, 3]).standard_normal((hidden, rank))
    return orthogonal(np.linalg.qr(drawn)[0])


def orthogonal(basis: NDArray[np.float64]) -> Eraser:
    """Returns the orthogonal projection that takes away what an orthonormal basis, [hidden, rank], spans."""
    return Eraser(basis, basis.T)


def _column_space(values: NDArray[np.float64], least: float, most: int) -> NDArray[np.float64]:
    """Returns an orthonormal basis of the columns: at most so many directions, those of the largest singular values, which are
    over `least`."""
    basis, sizes, _ = np.linalg.svd(values, full_matrices=False)
    return basis[:, : max(0, min(int((sizes > least).sum()), most))]
