"""Reads tensors from safetensors files into memory of their own.

Nothing is mapped: truncating a mapped file while it is read crashes the process, and overwriting it later changes the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import torch

from bertscope_service.encoders.weight_headers import Stored

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


def read_tensors(tensors: Mapping[str, Stored]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields each tensor with its name, one after the other, file by file. Raises ValueError for a file that ends early or a
    number format that weights don't have, OSError."""
    by_file: dict[Path, list[Stored]] = {}
    for tensor in tensors.values():
        by_file.setdefault(tensor.file, []).append(tensor)
    for path, stored in by_file.items():
        with path.open("rb", buffering=0) as file:
            for tensor in sorted(stored, key=lambda tensor: tensor.begin):
                yield tensor.name, _read(file, tensor)


def _read(file: BinaryIO, stored: Stored) -> torch.Tensor:
    if stored.dtype not in FORMATS:
        raise ValueError(f"{stored.name} in {stored.file.name} is {stored.dtype}, which no weight is")
    tensor = torch.empty(stored.shape, dtype=FORMATS[stored.dtype], device="cpu")
    # numpy has neither bfloat16 nor the 8-bit formats, so it reads bytes.
    room = memoryview(tensor.view(-1).view(torch.uint8).numpy().data)
    file.seek(stored.begin)
    while room:
        count = file.readinto(room)  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{stored.file.name} was cut short while it was read")
        room = room[count:]
    return tensor
