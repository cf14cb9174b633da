"""Reads and writes small files of safetensors: the length of a header, the header in JSON, and the numbers of arrays.

Nothing in a file is run, and nothing is allocated that the file does not have.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bertscope.errors import invalid_argument

MAX_HEADER_BYTES = 1024 * 1024
"""A longer header would be no file of ours."""
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
NAMES = {"f4": "F32", "f2": "F16"}


def write(file: IO[bytes], arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Writes arrays of float32 and float16, in order."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, values in arrays.items():
        begin, end = end, end + values.nbytes
        header[name] = {"dtype": NAMES[values.dtype.str[1:]], "shape": list(values.shape), "data_offsets": [begin, end]}
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    file.write(struct.pack("<Q", len(written)) + written)
    for values in arrays.values():
        file.write(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes())


def read(file: IO[bytes], names: Iterable[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Returns the named arrays of a file, and its metadata. Raises InvalidArgument for an array of anything but real numbers,
    and kept_arrays.DAMAGED for other contents."""
    (length,) = struct.unpack("<Q", file.read(8))
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length} bytes")
    header, data = json.loads(file.read(length)), file.read()
    return {name: _array(name, header[name], data) for name in names}, dict(header["__metadata__"])


def _array(name: str, about: Mapping[str, Any], data: bytes) -> NDArray[Any]:
    if about["dtype"] not in DTYPES:
        raise invalid_argument(name, f"is of {about['dtype']}; it must be of {', '.join(DTYPES)}")
    kind, shape, (begin, end) = np.dtype(DTYPES[about["dtype"]]), tuple(about["shape"]), about["data_offsets"]
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(data) or end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name} has shape {shape}, which the file has not")
    return np.frombuffer(bytearray(data[begin:end]), kind).reshape(shape)  # A bytearray: arrays that are read can be changed.
