"""Number formats of tensors in replies."""

from __future__ import annotations

import torch
from bertscope.v1 import common_pb2

FORMATS = {
    common_pb2.DATA_TYPE_UNSPECIFIED: torch.float32,
    common_pb2.DATA_TYPE_FLOAT32: torch.float32,
    common_pb2.DATA_TYPE_FLOAT16: torch.float16,
    common_pb2.DATA_TYPE_BFLOAT16: torch.bfloat16,
}
DATA_TYPES = {kind: number for number, kind in FORMATS.items() if number}


def read_data_type(number: common_pb2.DataType.ValueType) -> torch.dtype:
    """Returns the number format in a request's field `dtype`."""
    return FORMATS[number]
