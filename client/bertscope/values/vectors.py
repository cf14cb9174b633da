"""Checks vectors that a caller gives, and makes messages of them. numpy is imported only where there are some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def tensor(values: npt.NDArray[np.float32]) -> common_pb2.Tensor:
    """Returns the tensor of an array of float32."""
    data = values.astype("<f4", copy=False).tobytes()
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=values.shape, data=data)


def float32s(field: str, given: object, wanted: str, *dimensions: int) -> npt.NDArray[np.float32]:
    """Returns a copy of an array, or of nested lists, as float32 that nobody can change. Raises InvalidArgument unless it has
    one of these numbers of dimensions, is not empty, and is finite, also as float32."""
    import numpy

    try:
        found = numpy.asarray(given)
    except ValueError:  # lists of different lengths
        found = numpy.empty(0, object)
    if found.dtype.kind not in "fiu":
        raise invalid_argument(field, f"must be an array of numbers {wanted}, not {type(given).__name__} of {found.dtype}")
    if found.ndim not in dimensions or not found.size:
        raise invalid_argument(field, f"must be {wanted}, and its shape is {list(found.shape)}")
    with numpy.errstate(over="ignore"):
        values = numpy.array(found, numpy.float32)
    if not numpy.isfinite(values).all():
        raise invalid_argument(field, "must be finite in float32: leave out NaN, infinities and numbers over 3.4e38")
    values.setflags(write=False)
    return values
