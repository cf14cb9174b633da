"""Reads tensors from safetensors files into memory of their own.

Nothing is mapped: truncating a mapped file while it is read crashes the process, and overwriting it later changes the model.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

FORMATS = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
"""Number formats of weights, by their names in safetensors files."""

LENGTH_BYTES = 8
"""The size of a file's first number, the length of the header."""

LONGEST_HEADER = 100_000_000
"""Bytes; the limit of the safetensors library."""

METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The place of a tensor: bytes `begin` to `end` of a file."""

    file: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def find_tensors(files: Iterable[Path]) -> dict[str, StoredTensor]:
    """Returns all tensors of some safetensors files, by name; the last one if several files have it.

    Raises ValueError, with a message for users, for a file of another format, OSError.
    """
    found: dict[str, StoredTensor] = {}
    for file in files:
        found.update(_header(file))
    return found


def read_tensors(tensors: Mapping[str, StoredTensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields each tensor with its name, one after the other, file by file. Raises ValueError for a file that ends early,
    OSError."""
    by_file: dict[Path, list[str]] = {}
    for name, tensor in tensors.items():
        by_file.setdefault(tensor.file, []).append(name)
    for path, names in by_file.items():
        with path.open("rb", buffering=0) as file:
            for name in sorted(names, key=lambda name: tensors[name].begin):
                yield name, _read(file, tensors[name])


def _header(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        start = LENGTH_BYTES + length
        if length > LONGEST_HEADER or start > size:
            raise ValueError(f"{path.name} is not a safetensors file, or it is cut short: its header has no end")
        text = file.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header of {path.name} is not JSON") from error
    if not isinstance(header, dict):
        raise ValueError(f"the header of {path.name} is not a JSON object")
    for name, entry in header.items():
        if name != METADATA:
            yield name, _stored(path, name, entry, start, size)


def _stored(path: Path, name: str, entry: Any, start: int, size: int) -> StoredTensor:
    """Returns a tensor's place from the header, checked against the size of the file."""
    try:
        dtype, shape, (begin, end) = FORMATS[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"the header of {path.name} does not say where {name} is, or in what number format") from error
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
        raise ValueError(f"the header of {path.name} does not say where {name} is")
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} in {path.name} has {end - begin} bytes, and its shape {list(shape)} takes others")
    if start + end > size:
        raise ValueError(f"{path.name} is cut short: it ends before {name}")
    return StoredTensor(path, dtype, shape, start + begin, start + end)


def _read(file: BinaryIO, stored: StoredTensor) -> torch.Tensor:
    tensor = torch.empty(stored.shape, dtype=stored.dtype, device="cpu")
    # numpy has neither bfloat16 nor the 8-bit formats, so it reads bytes.
    room = memoryview(tensor.view(-1).view(torch.uint8).numpy().data)
    file.seek(stored.begin)
    while room:
        count = file.readinto(room)  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{stored.file.name} was cut short while it was read")
        room = room[count:]
    return tensor
