"""Reads the tensors of messages as arrays, and makes tensors of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.v1 import common_pb2

# The wire is little-endian whatever the machine; on a little-endian machine these are numpy's own float32 and float16.
DTYPES: dict[int, np.dtype[Any]] = {
    common_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    common_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
}


def matrix(message: common_pb2.Tensor) -> npt.NDArray[np.float32]:
    """Returns the numbers of a tensor with two dimensions. Raises InvalidReply for other ones."""
    dtype: np.dtype[Any] | None = DTYPES.get(message.dtype)
    shape = tuple(message.shape)
    if dtype is None or len(shape) != 2 or len(message.data) != shape[0] * shape[1] * dtype.itemsize:
        raise InvalidReply(f"the server sent {len(message.data)} bytes as a matrix of shape {shape}")
    return np.frombuffer(message.data, dtype).reshape(shape).astype(np.float32)


def tensor(values: npt.NDArray[np.float32]) -> common_pb2.Tensor:
    """Returns the tensor of an array of float32."""
    data = np.ascontiguousarray(values, "<f4").tobytes()
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=values.shape, data=data)


def float32s(field: str, given: object, wanted: str, *dimensions: int) -> npt.NDArray[np.float32]:
    """Returns a copy of an array, or of nested lists, as float32 that nobody can change. Raises InvalidArgument unless it has
    one of these numbers of dimensions, is not empty, and is finite, also as float32."""
    try:
        found = np.asarray(given)
    except ValueError:  # lists of different lengths
        found = np.empty(0, object)
    if found.dtype.kind not in "fiu":
        raise invalid_argument(field, f"must be an array of numbers {wanted}, not {type(given).__name__} of {found.dtype}")
    if found.ndim not in dimensions or not found.size:
        raise invalid_argument(field, f"must be {wanted}, and its shape is {list(found.shape)}")
    with np.errstate(over="ignore"):
        values = np.array(found, np.float32)
    if not np.isfinite(values).all():
        raise invalid_argument(field, "must be finite in float32: leave out NaN, infinities and numbers over 3.4e38")
    values.setflags(write=False)
    return values
