"""Reads all weights once, in pieces, to find NaN, infinity, and numbers that a number format can't hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.encoders.refusals import refused
from bertscope_service.encoders.weight_headers import Stored

PIECE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a number format: an unsigned integer whose bits except the first grow with the number's absolute value.

    magnitude: mask of those bits. infinity: from this value on, numbers are infinite or NaN.
    """

    integer: Any
    magnitude: int
    infinity: int


LAYOUTS = {
    "F16": Layout(np.uint16, 0x7FFF, 0x7C00),
    "BF16": Layout(np.uint16, 0x7FFF, 0x7F80),
    "F32": Layout(np.uint32, 0x7FFF_FFFF, 0x7F80_0000),
    "F64": Layout(np.uint64, 0x7FFF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000),
}

LARGEST = {"fp16": 65_504.0, "bf16": 3.3895313892515355e38, "fp32": 3.4028234663852886e38}
"""The largest number of each precision that a model can run in."""


def check_finite(tensors: Iterable[Stored], precision: str) -> None:
    """Raises FailedPrecondition if a weight is NaN or infinite, or would be in `precision`.

    Formats that are not floating point are skipped. Takes as long as reading the files, and a few MiB; raises OSError.
    """
    piece = bytearray(PIECE_BYTES)
    for stored in tensors:
        layout = LAYOUTS.get(stored.dtype)
        if layout is None:
            continue
        largest = _largest(stored, layout, piece)
        if largest >= layout.infinity:
            reason = "WEIGHTS_NOT_FINITE"
            raise refused(stored.file, f"a number in {stored.name}", "NaN or infinite", "all weights must be finite", reason)
        limit = LARGEST.get(precision, LARGEST["fp32"])
        size = _value(largest, stored.dtype, layout)
        if size > limit:
            allowed = f"{precision} holds numbers up to {limit:g}; use another precision"
            raise refused(stored.file, f"a number in {stored.name}", size, allowed, "WEIGHTS_TOO_LARGE")


def _largest(stored: Stored, layout: Layout, piece: bytearray) -> int:
    """Returns the bits of the number that is furthest from zero."""
    largest, left, width = 0, stored.end - stored.begin, np.dtype(layout.integer).itemsize
    with stored.file.open("rb", buffering=0) as file:
        file.seek(stored.begin)
        while left > 0:
            count = file.readinto(memoryview(piece)[: min(left, PIECE_BYTES)])
            if count is None or count < width:
                size = stored.file.stat().st_size
                raise refused(stored.file, "its size", size, "it was cut short meanwhile; load it again", "SOURCE_CHANGED")
            whole = count - count % width
            file.seek(whole - count, 1)
            numbers: NDArray[Any] = np.frombuffer(piece, dtype=layout.integer, count=whole // width)
            largest = max(largest, int((numbers & layout.integer(layout.magnitude)).max(initial=0)))
            left -= whole
    return largest


def _value(bits: int, dtype: str, layout: Layout) -> float:
    """Returns the number with these finite bits."""
    if dtype == "BF16":
        return float(np.array([bits << 16], dtype=np.uint32).view(np.float32)[0])
    kind = {"F16": np.float16, "F32": np.float32, "F64": np.float64}[dtype]
    return float(np.array([bits], dtype=layout.integer).view(kind)[0])
