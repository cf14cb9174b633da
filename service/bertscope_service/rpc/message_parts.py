"""Parses large requests, and serialises large replies, in parts. Protobuf keeps the interpreter meanwhile, also in another
thread: 16 MB of many small entries would hold the event loop for half a second."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from bertscope_service import cancellation

T = TypeVar("T", bound=Message)

PART_BYTES = 128 * 1024
"""About so much is parsed at a time, in some milliseconds at most."""

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types (protobuf's documentation, "Encoding"); groups are none of proto3."""


def parse_in_parts(kind: type[T], raw: bytes) -> T:
    """Returns the message of so many bytes, as `kind.FromString` does; between parts other threads run. Raises DecodeError,
    and see `cancellation.check`."""
    message = kind()
    _merge(message, raw, 0, len(raw))
    return message


def serialize_in_parts(message: Message) -> bytes:
    """Returns the bytes of a message, as its SerializeToString does; between the entries of its lists other threads run. See
    `cancellation.check`."""
    rest, parts = type(message)(), list[bytes]()
    for field, value in message.ListFields():
        if _inside(message, field.number) is None:
            _set(rest, field.name, value)
            continue
        for entry in value if field.is_repeated else [value]:
            cancellation.check()
            data = entry.SerializeToString() if field.is_repeated else serialize_in_parts(entry)
            parts += [_written(field.number << 3 | DELIMITED), _written(len(data)), data]
    return b"".join([rest.SerializeToString(), *parts])


def _set(message: Message, name: str, value: Any) -> None:
    """Sets a field that holds no messages."""
    if isinstance(value, (str, bytes, bool, int, float)):
        setattr(message, name, value)
    else:
        getattr(message, name).MergeFrom(value)


def _written(number: int) -> bytes:
    """Returns a number as a varint."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _merge(message: Message, raw: bytes, begin: int, end: int) -> None:
    """Parses raw[begin:end] into a message. Large messages inside are parsed in parts, too."""
    start = at = begin  # the bytes before `start` are parsed
    while at < end:
        before = at
        key, at = _varint(raw, at, end)
        wire = key & 7
        if wire == VARINT:
            _, at = _varint(raw, at, end)
        elif wire == DELIMITED:
            size, at = _varint(raw, at, end)
            if size > PART_BYTES and at + size <= end and (inner := _inside(message, key >> 3)):
                message.MergeFromString(raw[start:before])
                held = getattr(message, inner.name)
                if inner.is_repeated:
                    held = held.add()
                else:
                    held.SetInParent()
                _merge(held, raw, at, at + size)
                start = at + size
            at += size
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
        else:
            raise DecodeError("a group, or no wire type")
        if at > end:
            raise DecodeError("a field ends behind its message")
        if at - start >= PART_BYTES:
            cancellation.check()
            message.MergeFromString(raw[start:at])
            start = at
    message.MergeFromString(raw[start:end])


def _inside(message: Message, number: int) -> Any:
    """Returns the descriptor of a field if it holds messages; None for others, and for maps."""
    field: Any = message.DESCRIPTOR.fields_by_number.get(number)
    if field is None or field.message_type is None or field.message_type.GetOptions().map_entry:
        return None
    return field


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Returns the number that begins at a place, and the place behind it."""
    value = shift = 0
    while at < end and shift < 64:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise DecodeError("a number has no end")
