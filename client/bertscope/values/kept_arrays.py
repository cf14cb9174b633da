"""Reads and writes arrays in numpy's .npy and .npz files and in small files of safetensors, whatever the files hold.

Nothing in a file is run, and nothing is allocated that the file does not have: what its headers say is compared with its size
before an array is made, and compressed arrays are not read.
"""

from __future__ import annotations

import errno
import json
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from bertscope.errors import InvalidArgument, invalid_argument
from bertscope.values import validation
from bertscope.values.validation import File

MAX_ARRAYS = 100
"""Arrays in a file; more would be no file of ours."""
HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
# What the readers of zip files, headers and JSON raise at files that are damaged or made to mislead.
DAMAGED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
    OverflowError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zlib.error,
    zipfile.BadZipFile,
)


@contextmanager
def kept_file(path: object, holds: str, otherwise: str) -> Iterator[None]:
    """Turns what goes wrong with a file's contents into InvalidArgument, which names the file: `holds` and the cause for
    contents of another form, `otherwise` for those of none."""
    try:
        yield
    except InvalidArgument as error:
        raise invalid_argument(str(path), f"{holds}: {error}") from error
    except DAMAGED as error:
        raise invalid_argument(str(path), otherwise) from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # A place before the file's begin, to which a damaged zip file leads.
            raise
        raise invalid_argument(str(path), otherwise) from error


def write_npz(path: File, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Writes arrays, and what is known about them in JSON types, to an .npz file. Raises OSError if it can't be written."""
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with Path(path).open("wb") as file:
        np.savez(file, about=text, **arrays)


def read_npz(file: IO[bytes], names: Iterable[str], most: int = MAX_ARRAYS) -> dict[str, NDArray[Any]]:
    """Returns those of the named arrays that an .npz file has among its first, as numpy.savez writes it. Raises InvalidArgument
    for an array of anything but real numbers, and DAMAGED for other contents."""
    with zipfile.ZipFile(file) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()[:most]}
        found = {}
        for name in names:
            if (member := members.get(name)) is None:
                continue
            if member.compress_type != zipfile.ZIP_STORED:
                raise invalid_argument(name, "is compressed; write the file with numpy.savez")
            with archive.open(member) as array:
                found[name] = read_npy(array, member.file_size, name)
        return found


def read_npy(file: IO[bytes], size: int, name: str = "array") -> NDArray[Any]:
    """Returns the array of an .npy file of `size` bytes. Raises InvalidArgument for anything but real numbers, and DAMAGED for
    other contents."""
    shape, by_columns, kind = HEADERS[npy_format.read_magic(file)](file)
    if kind.kind not in "biuf":
        raise invalid_argument(name, f"is of {kind}; it must be of real numbers")
    length = math.prod(shape) * kind.itemsize  # Python's whole numbers: these have no largest one.
    if min(shape, default=0) < 0 or length != size - file.tell():
        raise ValueError(f"{name} has shape {shape}, which the file has not")
    values = np.frombuffer(bytearray(file.read(length)), kind)  # A bytearray: arrays that are read can be changed.
    return values.reshape(shape, order="F" if by_columns else "C")


def read_about(values: NDArray[Any], wanted: str) -> dict[str, Any]:
    """Returns what an array of UTF-8 bytes says about the others: a JSON object of the wanted "format". Raises DAMAGED."""
    found: dict[str, Any] = json.loads(values.tobytes())
    if found["format"] != wanted:
        raise ValueError(found["format"])
    return found


def read_layers(values: NDArray[Any]) -> list[int]:
    """Returns numbers of layers, each once. Raises InvalidArgument."""
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(set(found := values.tolist())) != len(found):
        raise invalid_argument("layers", "must be whole numbers, none twice")
    return list(found)


def finite(name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """Returns numbers as float32. Raises InvalidArgument if one is not finite, or not in float32."""
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        raise invalid_argument(name, "has numbers that are not finite")
    return found


def read_versions(values: object) -> dict[str, str]:
    """Returns versions by package name. Raises InvalidArgument."""
    if not isinstance(values, dict):
        raise invalid_argument("versions", "must be an object")
    return {name: validation.text(f"versions[{name}]", version) for name, version in values.items()}


MAX_HEADER_BYTES = 1024 * 1024
"""A longer header would be no file of ours."""
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
NAMES = {"f4": "F32", "f2": "F16"}


def write_safetensors(file: IO[bytes], arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
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


def read_safetensors(file: IO[bytes], names: Iterable[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Returns the named arrays of a file, and its metadata. Raises InvalidArgument for an array of anything but real numbers,
    and DAMAGED for other contents."""
    (length,) = struct.unpack("<Q", file.read(8))
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length} bytes")
    header, data = json.loads(file.read(length)), file.read()
    return {name: _array(name, header[name], data) for name in names}, dict(header["__metadata__"])


def _array(name: str, about: Mapping[str, Any], data: bytes) -> NDArray[Any]:
    if about["dtype"] not in FLOATS:
        raise invalid_argument(name, f"is of {about['dtype']}; it must be of {', '.join(FLOATS)}")
    kind, shape, (begin, end) = np.dtype(FLOATS[about["dtype"]]), tuple(about["shape"]), about["data_offsets"]
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(data) or end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name} has shape {shape}, which the file has not")
    return np.frombuffer(bytearray(data[begin:end]), kind).reshape(shape)  # A bytearray: arrays that are read can be changed.
