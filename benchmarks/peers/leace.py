"""Prints the map of concept-erasure's LeaceEraser for the states of tests/unit/probing/test_erasers.py, which stores it.

    pip install concept-erasure==0.2.4 && python -m benchmarks.peers.leace

Its shrinkage of the covariance, its bound on the variance afterwards, and its large tolerance are off, which leaves the map of
theorem 4.3.
"""

from __future__ import annotations

import numpy as np
import torch
from concept_erasure import LeaceEraser
from numpy.typing import NDArray

CLASSES = 3


def example() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns states, float64 [200, 5], and their classes."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, CLASSES, 200)
    mixed = generator.standard_normal((200, 5)) @ generator.standard_normal((5, 5))
    return mixed + generator.standard_normal((CLASSES, 5))[labels], labels


def main() -> None:
    states, labels = example()
    classes = torch.nn.functional.one_hot(torch.from_numpy(labels), CLASSES).double()
    exact = {"shrinkage": False, "constrain_cov_trace": False, "svd_tol": 1e-6}
    eraser = LeaceEraser.fit(torch.from_numpy(states), classes, **exact)
    print(np.array2string((eraser.proj_left @ eraser.proj_right).numpy(), precision=9, separator=", "))


if __name__ == "__main__":
    main()
