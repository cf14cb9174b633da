"""How far float32 may be from exact numbers: where the tolerances of numeric tests come from.

Kernels sum in an order of their own: it changes with the CPU, the library and the size of a batch, and the last digits
change with it. So a tolerance is a bound that holds for every order, or a multiple of what one order does to the reference
itself; it is never what was seen on one machine.
"""

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-24
"""The largest relative error of rounding to float32."""

MODEL = 1024
"""Roundings that follow one another in a tiny model: in each of three layers, sums of 32 for queries, of 8 for scores, of 64
for a softmax and for contexts, of 32 for the output, of 32 and 64 for the feed-forward part, and two normalisations; then a
head."""

TIMES = 8
"""How many times the reference's own error in float32 ours may be. Both are errors of the same sums in some order, and so of
one size: ours was at most 3.1 times as large, over all quantities of attention and three sets of kernels (AVX-512, AVX2,
SSE4.1)."""


def roundings(count: int) -> float:
    """The relative error after so many roundings in a row, at most (Higham, Accuracy and Stability, 2002, section 3.1)."""
    return count * UNIT / (1 - count * UNIT)


BOTH_SIDES = roundings(2 * MODEL)
"""The largest difference between two computations of a tiny model in float32, as a share of the largest number: 1.2e-4."""


def assert_like_float32(found: NDArray[np.float32], exact: NDArray[np.float64], reference: NDArray[np.float64]) -> None:
    """In each layer, the first dimension, nothing differs from the exact numbers by more than `TIMES` the largest error of the
    reference's own computation in float32, which counts as a rounding of the largest number at least."""
    assert found.shape == exact.shape == reference.shape
    for layer, (ours, wanted, theirs) in enumerate(zip(found, exact, reference, strict=True)):
        noise = max(float(np.abs(theirs - wanted).max()), UNIT * float(np.abs(wanted).max()))
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=TIMES * noise, err_msg=f"layer {layer}")
