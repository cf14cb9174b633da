"""Reads the headers of safetensors files without their tensors.

Format: 8 bytes with the length of the header, little-endian; the header, a JSON object {NAME: {dtype, shape, data_offsets}};
the tensors without gaps. https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscope_service.encoders.refusals import refused, shown, unreadable
from bertscope_service.errors import FailedPrecondition

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 * 1024 * 1024
"""Maximum size of a header, that of a model with 100,000 tensors; models of this family have some hundreds."""

BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
"""Number formats that a header may name."""

FLOATS = ("F16", "BF16", "F32", "F64")
"""Number formats that weights may have."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file: its number format, its shape, and the bytes from `begin` to before `end` of the file."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_headers(files: Iterable[Path]) -> dict[str, Stored]:
    """Reads all tensors of some files, by name.

    Raises FailedPrecondition for a file that is empty, cut short or broken, and for a tensor that is in two of them; OSError.
    """
    found: dict[str, Stored] = {}
    for file in files:
        for tensor in _read(file):
            if tensor.name in found:
                raise unreadable(file.parent, f"{tensor.name} is in {found[tensor.name].file} and in {file}; keep one of them")
            found[tensor.name] = tensor
    return found


def check_index(index: Path, tensors: Mapping[str, Stored]) -> None:
    """Raises FailedPrecondition if an index of shards names a tensor that its shard lacks."""
    for name, shard in json.loads(index.read_text(encoding="utf-8"))["weight_map"].items():
        stored = tensors.get(name)
        if stored is None or stored.file.name != shard:
            raise refused(index, f"weight_map[{shown(name)}]", shard, "that shard has no such tensor; save the model again")


def _read(file: Path) -> list[Stored]:
    size = file.stat().st_size
    if not size:
        raise unreadable(file.parent, f"{file} is empty; copy or download it again")
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(LENGTH_BYTES), "little")
        largest = min(MAX_HEADER_BYTES, size - LENGTH_BYTES)
        if length > largest:
            allowed = f"the file has {size} bytes, and a header may have up to {MAX_HEADER_BYTES}; copy or download it again"
            raise refused(file, "the length of its header", length, allowed)
        written = opened.read(length)
    try:
        header = json.loads(written)
        entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, AttributeError, RecursionError) as error:
        message = f"{file} has a header that is not a JSON object ({type(error).__name__}); copy or download it again"
        raise unreadable(file.parent, message) from error
    begin = LENGTH_BYTES + length
    found = sorted(
        (_stored(file, name, entry, begin) for name, entry in entries), key=lambda tensor: (tensor.begin, tensor.end)
    )
    for tensor in found:
        if tensor.begin != begin:
            raise refused(
                file, f"the place of {shown(tensor.name)}", tensor.begin, f"it should be {begin}, without gaps or overlaps"
            )
        begin = tensor.end
    if begin != size:
        raise refused(file, "its size", size, f"its header requires {begin} bytes; copy or download it again")
    return found


def _stored(file: Path, name: str, entry: Any, begin: int) -> Stored:
    """Converts one entry of a header. Raises FailedPrecondition for an impossible one."""
    try:
        dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        known = dtype in BITS
        whole = all(type(number) is int and number >= 0 for number in (*shape, first, last))
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(file, name, entry) from error
    if not whole:
        raise _broken(file, name, entry)
    if not known:
        raise refused(file, f"the number format of {shown(name)}", dtype, f"allowed are {', '.join(BITS)}")
    size = math.prod(shape) * BITS[dtype] // 8
    if last - first != size:
        raise refused(
            file, f"the length of {shown(name)}", last - first, f"its shape {list(shape)} in {dtype} takes {shown(size)} bytes"
        )
    return Stored(file, name, dtype, shape, begin + first, begin + last)


def _broken(file: Path, name: str, entry: object) -> FailedPrecondition:
    return refused(file, f"the entry of {shown(name)}", entry, "a header has dtype, shape and data_offsets of each tensor")
