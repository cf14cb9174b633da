"""Rendering of numbers as bertscope.v1.Tensor, float32 of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from bertscope.v1 import common_pb2
from numpy.typing import NDArray


def render_matrix(values: NDArray[np.floating[Any]]) -> common_pb2.Tensor:
    data = values.astype("<f4", copy=False).tobytes()
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=values.shape, data=data)
