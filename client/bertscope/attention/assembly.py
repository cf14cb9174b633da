"""Assembles the chunks of an ExtractAttention stream. Pure: messages in, maps out.

Each text has one array, allocated when its header comes; chunks are copied to their place and dropped, so that memory is that
of the result, and no more, however long the stream.
"""

import bisect
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope._messages import DTYPES, provenance, token
from bertscope.attention.maps import AttentionMaps
from bertscope.attention.quantities import check_quantity
from bertscope.errors import InvalidReply
from bertscope.v1 import attention_pb2


@dataclass
class Coverage:
    """The received bytes of a range: disjoint intervals, adjacent ones joined."""

    size: int
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, start: int, end: int) -> None:
        """Adds [start, end). Raises InvalidReply if it is empty, leaves the range or was added before."""
        if not 0 <= start < end <= self.size:
            raise InvalidReply(f"the server sent bytes {start} to {end} of a tensor of {self.size} bytes")
        index = bisect.bisect_right(self.starts, start)
        if (index and self.ends[index - 1] > start) or (index < len(self.starts) and self.starts[index] < end):
            raise InvalidReply(f"the server sent some of bytes {start} to {end} twice")
        joins_left = index > 0 and self.ends[index - 1] == start
        joins_right = index < len(self.starts) and self.starts[index] == end
        first, last = index - joins_left, index + joins_right
        self.starts[first:last] = [self.starts[index - 1] if joins_left else start]
        self.ends[first:last] = [self.ends[index] if joins_right else end]

    @property
    def complete(self) -> bool:
        """True when every byte has come."""
        return self.size == 0 or (self.starts == [0] and self.ends == [self.size])


class _Text:
    """The maps of one text while they arrive."""

    def __init__(self, header: attention_pb2.AttentionHeader) -> None:
        shape = tuple(header.attention.shape)
        if shape != (len(header.layers), len(header.heads), len(header.tokens), len(header.tokens)):
            raise InvalidReply(
                f"the server announced maps of shape {list(shape)} for {len(header.layers)} layers, "
                f"{len(header.heads)} heads and {len(header.tokens)} tokens"
            )
        if header.attention.dtype not in DTYPES:
            raise InvalidReply(f"the server announced maps of the unknown data type {header.attention.dtype}")
        self.header = header
        self.attention: npt.NDArray[np.floating[Any]] = np.empty(shape, DTYPES[header.attention.dtype])
        self.bytes = self.attention.reshape(-1).view(np.uint8)
        self.coverage = Coverage(math.prod(shape) * self.attention.itemsize)

    def add(self, chunk: attention_pb2.AttentionChunk) -> None:
        data = chunk.data  # protobuf makes a copy each time
        end = chunk.offset + len(data)
        self.coverage.add(chunk.offset, end)
        self.bytes[chunk.offset : end] = np.frombuffer(data, np.uint8)


class AttentionAssembler:
    """The state of one ExtractAttention stream."""

    def __init__(self, request: attention_pb2.ExtractAttentionRequest) -> None:
        self._inputs = request.inputs
        self._quantity = request.quantity
        self._headers = 0
        self._arriving: dict[int, _Text] = {}

    def add(self, message: attention_pb2.ExtractAttentionResponse) -> AttentionMaps | None:
        """Processes one message and returns the maps of the text that it completes, if any.

        Raises InvalidReply for a message that breaks the contract.
        """
        if message.HasField("header"):
            index = message.header.input_index
            if index != self._headers or index >= len(self._inputs):
                raise InvalidReply(f"the server sent text {index} where text {self._headers} was due")
            check_quantity(self._quantity, message.header.quantity)
            self._headers += 1
            self._arriving[index] = _Text(message.header)
        elif message.HasField("chunk"):
            index = message.chunk.input_index
            if index not in self._arriving:
                raise InvalidReply(f"the server sent bytes of text {index}, which has not begun or is complete")
            self._arriving[index].add(message.chunk)
        else:
            return None  # An event that a newer server knows and this version does not.
        return self._finish(index) if self._arriving[index].coverage.complete else None

    def end(self) -> None:
        """Raises InvalidReply if the stream ended before every text was complete."""
        missing = len(self._inputs) - self._headers + len(self._arriving)
        if missing:
            raise InvalidReply(f"the stream ended early: {missing} of {len(self._inputs)} texts are incomplete")

    def _finish(self, index: int) -> AttentionMaps:
        text = self._arriving.pop(index)
        asked = self._inputs[index]
        return AttentionMaps(
            input_index=index,
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            tokens=tuple(map(token, text.header.tokens)),
            attention=text.attention,
            layers=tuple(text.header.layers),
            heads=tuple(text.header.heads),
            truncated_tokens=text.header.truncated_tokens,
            provenance=provenance(text.header.provenance),
            quantity=check_quantity(self._quantity, text.header.quantity),
        )
