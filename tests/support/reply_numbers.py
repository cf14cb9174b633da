"""All numbers of any reply of ours: two answers to one request can be compared, whatever it asked for."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from bertscope.v1 import common_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from numpy.typing import NDArray

ANEW = frozenset({"provenance", "progress", "projection"})
"""Fields that another call may fill in otherwise, beside seconds: how it was answered, and maps that may point either way."""

REALS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
KINDS = {common_pb2.DATA_TYPE_FLOAT32: "<f4", common_pb2.DATA_TYPE_FLOAT16: "<f2"}


def numbers_of(replies: Iterable[Message]) -> NDArray[np.float64]:
    """Returns the real numbers of a call's replies, those of tensors and of their chunks too, in their order."""
    return np.concatenate([np.zeros(0), *(part for reply in replies for part in _parts(reply))])


def _parts(message: Any) -> Iterator[NDArray[np.float64]]:
    if isinstance(message, common_pb2.Tensor):
        yield np.frombuffer(message.data, dtype=KINDS[message.dtype]).astype(np.float64)
        return
    for field in message.DESCRIPTOR.fields:
        # A number without presence is there when it is 0, too: another device may round it to something else.
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if (
            field.name in ANEW
            or field.name.endswith("seconds")
            or (field.message_type is not None and field.message_type.GetOptions().map_entry)
        ):
            continue
        values = value if field.is_repeated else (value,)
        if field.message_type is not None:
            for each in values:
                yield from _parts(each)
        elif field.cpp_type in REALS:
            yield np.array(values, dtype=np.float64)
        elif field.type == FieldDescriptor.TYPE_BYTES and field.name == "data":
            yield from (np.frombuffer(each, dtype="<f4").astype(np.float64) for each in values)
