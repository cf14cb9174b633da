"""Reads the tensors of messages as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
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


def vector(message: common_pb2.Tensor) -> npt.NDArray[np.float32]:
    """Returns the numbers of a tensor with one dimension. Raises InvalidReply for other ones."""
    dtype, shape = DTYPES.get(message.dtype), tuple(message.shape)
    if dtype is None or len(shape) != 1 or len(message.data) != shape[0] * dtype.itemsize:
        raise InvalidReply(f"the server sent {len(message.data)} bytes as a vector of shape {shape}")
    return np.frombuffer(message.data, dtype).astype(np.float32)
