"""Fields of messages as protobuf writes them, for replies of many numbers: its own objects cost several times as much."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

NUMBER, DOUBLE, DELIMITED = 0, 1, 2
"""protobuf's wire types of whole numbers, of float64, and of bytes, texts and messages, in the lower three bits of a tag."""

KEPT = 4096
"""Fields with values below are written once and kept."""


def varint(value: int) -> bytes:
    """Returns seven bits a byte, the lowest first; all but the last have the eighth bit set."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def number(field: int, value: int) -> bytes:
    """Returns a field with a whole number, which is left out if it is 0."""
    return varint(field << 3 | NUMBER) + varint(value) if value else b""


def header(field: int, size: int) -> bytes:
    """Returns what precedes `size` bytes of a field."""
    return varint(field << 3 | DELIMITED) + varint(size)


def double(field: int, value: float) -> bytes:
    """Returns a field with a float64."""
    return varint(field << 3 | DOUBLE) + struct.pack("<d", value)


def doubles(columns: Mapping[int, Sequence[NDArray[np.float64]]]) -> tuple[bytes, int]:
    """Returns fields with float64 of many messages, one message after another, and the size of those of one. `columns` has the
    numbers of each field: arrays of those of consecutive messages."""
    count = sum(map(len, next(iter(columns.values()))))
    found = np.empty((count, len(columns)), dtype=_DOUBLE)
    tags, numbers = found["tag"], found["number"]
    for index, (field, values) in enumerate(columns.items()):
        tags[:, index] = field << 3 | DOUBLE
        if count:
            np.concatenate(values, out=numbers[:, index])
    return found.tobytes(), _DOUBLE.itemsize * len(columns)


_DOUBLE = np.dtype([("tag", "u1"), ("number", "<f8")])


class Kept(dict[int, bytes]):
    """`number` or `header` of one field, by the value: looking it up takes a tenth of the time. For use from any thread.

    >>> Kept(number, 7)[3]
    """

    def __init__(self, write: Callable[[int, int], bytes], field: int) -> None:
        self._write, self._field = write, field

    def __missing__(self, value: int) -> bytes:
        written = self._write(self._field, value)
        if value < KEPT:
            self[value] = written
        return written
