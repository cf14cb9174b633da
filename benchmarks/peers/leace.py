"""Prints the map of concept-erasure's LeaceEraser for the states of the service's test_erasers.py, which stores it.

    python -m benchmarks.peers.leace

Its shrinkage of the covariance, its bound on the variance afterwards, and its large tolerance are off, which leaves the map of
theorem 4.3.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.environments import packages_folder

PEER = "concept-erasure==0.2.4"
CLASSES = 3


def example() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns states, float64 [200, 5], and their classes."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, CLASSES, 200)
    mixed = generator.standard_normal((200, 5)) @ generator.standard_normal((5, 5))
    return mixed + generator.standard_normal((CLASSES, 5))[labels], labels


def main() -> None:
    sys.path.append(str(packages_folder(Path(tempfile.gettempdir()) / "bertscope-concept-erasure", (PEER,))))
    fit = import_module("concept_erasure").LeaceEraser.fit
    states, labels = example()
    classes = torch.nn.functional.one_hot(torch.from_numpy(labels), CLASSES).double()
    exact = {"shrinkage": False, "constrain_cov_trace": False, "svd_tol": 1e-6}
    eraser = fit(torch.from_numpy(states), classes, **exact)
    print(np.array2string((eraser.proj_left @ eraser.proj_right).numpy(), precision=9, separator=", "))


if __name__ == "__main__":
    main()
