"""Reads float32 tensors of requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bertscope.v1 import common_pb2
from numpy.typing import NDArray

from bertscope_service.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Expected:
    """The words of errors about a tensor: their reasons for one that does not fit and for numbers that are not finite, what its
    shape is for, which tensor to send, and what to do about such numbers."""

    mismatch: str
    not_finite: str
    purpose: str
    remedy: str
    again: str


def parse_tensor(tensor: common_pb2.Tensor, field: str, shape: tuple[int, ...], expected: Expected) -> NDArray[np.float32]:
    """Returns the numbers of a tensor. Raises InvalidArgument for another type or shape, and for NaN and infinite numbers."""
    if tensor.dtype != common_pb2.DATA_TYPE_FLOAT32:
        raise InvalidArgument(f"{field}.dtype", f"{field}.dtype is {tensor.dtype}; send DATA_TYPE_FLOAT32", expected.mismatch)
    if tuple(tensor.shape) != shape:
        # At most a few: a shape may have millions of entries.
        message = (
            f"{field} has shape {list(tensor.shape[:3])} and must have {list(shape)} for {expected.purpose}; {expected.remedy}"
        )
        raise InvalidArgument(f"{field}.shape", message, expected.mismatch)
    if len(tensor.data) != 4 * int(np.prod(shape)):
        message = f"{field} has {len(tensor.data)} bytes and its shape takes {4 * int(np.prod(shape))}; send float32 numbers"
        raise InvalidArgument(f"{field}.data", message, expected.mismatch)
    values = np.frombuffer(tensor.data, dtype="<f4").reshape(shape).astype(np.float32)
    if not np.isfinite(values).all():
        message = f"{field} has a number that is NaN or infinite; {expected.again}"
        raise InvalidArgument(field, message, expected.not_finite)
    return values
