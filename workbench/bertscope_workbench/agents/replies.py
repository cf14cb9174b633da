"""Turns replies into documents: dicts, lists, texts, numbers, and a numpy array for each tensor. Knows no rpc by name."""

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from bertscope.errors import InvalidReply
from bertscope.rpc.assembly import SENT, Coverage, widened
from bertscope.v1 import common_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

CHUNK = {"input_index", "offset", "data"}
"""The fields of a message that is a part of a tensor whose header came before."""

PROGRESS = "progress"
"""The event of a stream that tells how far the work is, and is no part of the answer."""


def document(message: Message) -> dict[str, Any]:
    """Returns a message as a document. Fields that are unset, and empty lists and texts, are left out; a 0 is not."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            if value:
                found[field.json_name] = dict(value)
        elif field.is_repeated:
            if len(value):
                found[field.json_name] = [_value(field, each) for each in value]
        elif value != "" and not (field.enum_type and value == 0):
            found[field.json_name] = _value(field, value)
    return found


def _value(field: Any, value: Any) -> Any:  # generated stubs have their own type for descriptors
    if field.enum_type:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if not field.message_type:
        return value
    if isinstance(value, common_pb2.Tensor):
        return array(value) if value.data or 0 in value.shape else {"shape": list(value.shape)}
    if field.message_type.full_name.startswith("google.protobuf."):
        return MessageToDict(value)
    return document(value)


def array(tensor: common_pb2.Tensor) -> np.ndarray[Any, Any]:
    """Returns the numbers of a tensor. Raises InvalidReply for one that can't be read."""
    kind = SENT.get(tensor.dtype)
    if kind is None or math.prod(tensor.shape) * kind.itemsize != len(tensor.data):
        raise InvalidReply("the server sent a tensor whose bytes do not fit its shape and its data type")
    return widened(np.frombuffer(tensor.data, kind).reshape(tuple(tensor.shape)))


class Stream:
    """The answer of a stream: its events by their names, each a list in the order in which they came. Tensors that come in
    chunks are put together."""

    def __init__(self) -> None:
        self.events: dict[str, list[Any]] = {}
        self.count = 0
        self._arriving: dict[int, tuple[dict[str, Any], str, np.ndarray[Any, Any], Coverage]] = {}

    def add(self, message: Message) -> tuple[str, Message]:
        """Adds a message of the stream. Returns the name of its event and the event; "" and the message where it has none."""
        held = [field for field, _ in message.ListFields()]
        if len(held) != 1 or held[0].message_type is None or held[0].is_repeated:
            self.events.setdefault("messages", []).append(document(message))
            return "", message
        field = held[0]
        event: Message = getattr(message, field.name)
        if CHUNK.issubset(event.DESCRIPTOR.fields_by_name):
            self._fill(event)
        elif field.name != PROGRESS:
            self.count += 1
            made = document(event)
            self.events.setdefault(field.json_name, []).append(made)
            self._expect(event, made)
        return field.name, event

    def document(self) -> dict[str, Any]:
        """Returns the answer. Raises InvalidReply if the bytes of a tensor are missing."""
        if any(not coverage.complete for *_, coverage in self._arriving.values()):
            raise InvalidReply("the stream ended early: bytes of a tensor are missing")
        for made, name, values, _ in self._arriving.values():
            made[name] = widened(values)
        self._arriving.clear()
        return self.events

    def _expect(self, header: Message, made: dict[str, Any]) -> None:
        for field, value in header.ListFields():
            if isinstance(value, common_pb2.Tensor) and not value.data and 0 not in value.shape:
                if value.dtype not in SENT:
                    raise InvalidReply(f"the server announced a tensor of the unknown data type {value.dtype}")
                values = np.empty(tuple(value.shape), SENT[value.dtype])
                index = getattr(header, "input_index", 0)
                self._arriving[index] = (made, field.json_name, values, Coverage(values.nbytes))

    def _fill(self, chunk: Any) -> None:
        if chunk.input_index not in self._arriving:
            raise InvalidReply(f"the server sent bytes of text {chunk.input_index}, which has not begun")
        *_, values, coverage = self._arriving[chunk.input_index]
        data = chunk.data
        coverage.add(chunk.offset, chunk.offset + len(data))
        values.reshape(-1).view(np.uint8)[chunk.offset : chunk.offset + len(data)] = np.frombuffer(data, np.uint8)


def steps(event: Message) -> tuple[float | None, float | None, str]:
    """Returns how much is done and how much there is, as far as an event says so, and the event in a line."""
    found = document(event)
    done, total = (_first(found, name) for name in ("done", "total"))
    said = ", ".join(f"{name} {value}" for name, value in found.items() if isinstance(value, (str, int, float)) and value != "")
    return done, total, said


def _first(found: Mapping[str, Any], prefix: str) -> float | None:
    return next((value for name, value in found.items() if name.startswith(prefix) and isinstance(value, (int, float))), None)
