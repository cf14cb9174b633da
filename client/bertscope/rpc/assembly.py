"""Assembles the chunks of a stream of tensors, one for each text. Pure: messages in, results out.

Each text has one array, allocated when its header comes; chunks are copied to their place and dropped, so that memory is that
of the result, and no more, however long the stream.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.v1 import common_pb2
from bertscope.v1.attention_pb2 import (
    AttentionChunk,
    AttentionHeader,
    ExtractAttentionRequest,
    ExtractAttentionResponse,
)
from bertscope.v1.representation_states_pb2 import (
    ExtractHiddenStatesRequest,
    ExtractHiddenStatesResponse,
    StatesChunk,
    StatesHeader,
)
from bertscope.values.results import Provenance
from bertscope.values.tensors import DTYPES

BFLOAT16 = np.dtype("<u2")
"""The bits of a bfloat16 number, which numpy lacks."""
SENT = DTYPES | {common_pb2.DATA_TYPE_BFLOAT16: BFLOAT16}


class TextTensor(Protocol):
    """The tensor of one text, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def input_index(self) -> int:
        """Index of the text among the call's inputs."""

    @property
    def provenance(self) -> Provenance:
        """Provenance of the numbers."""


Tensors = TypeVar("Tensors", bound=TextTensor)
Header = TypeVar("Header", bound=AttentionHeader | StatesHeader)
ExtractRequest = ExtractAttentionRequest | ExtractHiddenStatesRequest
ExtractResponse = ExtractAttentionResponse | ExtractHiddenStatesResponse


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


class _Arriving(Generic[Header]):
    """The tensor of one text while it arrives."""

    def __init__(self, header: Header, tensor: common_pb2.Tensor, what: str) -> None:
        if tensor.dtype not in SENT:
            raise InvalidReply(f"the server announced {what} of the unknown data type {tensor.dtype}")
        self.header = header
        self.values: npt.NDArray[Any] = np.empty(tuple(tensor.shape), SENT[tensor.dtype])
        self.bytes = self.values.reshape(-1).view(np.uint8)
        self.coverage = Coverage(math.prod(tensor.shape) * self.values.itemsize)

    def add(self, chunk: AttentionChunk | StatesChunk) -> None:
        data = chunk.data  # protobuf makes a copy each time
        end = chunk.offset + len(data)
        self.coverage.add(chunk.offset, end)
        self.bytes[chunk.offset : end] = np.frombuffer(data, np.uint8)


def widened(values: npt.NDArray[Any]) -> npt.NDArray[np.floating[Any]]:
    """Returns numbers, bfloat16 ones as float32: a bfloat16 is the first half of one, so that nothing is rounded."""
    return (values.astype("<u4") << 16).view("<f4") if values.dtype == BFLOAT16 else values


class Assembler(Generic[Header, Tensors]):
    """The state of one stream. A subclass says what the tensors of its rpc are."""

    what: ClassVar[str]
    """The numbers, in messages: "maps"."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._inputs: Sequence[Any] = request.inputs
        self._headers = 0
        self._arriving: dict[int, _Arriving[Any]] = {}

    def announced(self, header: Header) -> common_pb2.Tensor:
        """Returns the tensor that a header announces, checked but for its data type. Raises InvalidReply."""
        raise NotImplementedError

    def result(self, asked: Any, header: Header, values: npt.NDArray[np.floating[Any]]) -> Tensors:
        """Returns the result of one text."""
        raise NotImplementedError

    def add(self, message: ExtractResponse) -> Tensors | None:
        """Processes one message and returns the result of the text that it completes, if any.

        Raises InvalidReply for a message that breaks the contract.
        """
        if message.HasField("header"):
            header: Any = message.header
            index = header.input_index
            if index != self._headers or index >= len(self._inputs):
                raise InvalidReply(f"the server sent text {index} where text {self._headers} was due")
            tensor = self.announced(header)
            self._headers += 1
            self._arriving[index] = _Arriving(header, tensor, self.what)
        elif message.HasField("chunk"):
            index = message.chunk.input_index
            if index not in self._arriving:
                raise InvalidReply(f"the server sent bytes of text {index}, which has not begun or is complete")
            self._arriving[index].add(message.chunk)
        else:
            return None  # An event that a newer server knows and this version does not.
        if not self._arriving[index].coverage.complete:
            return None
        whole = self._arriving.pop(index)
        return self.result(self._inputs[index], whole.header, widened(whole.values))

    def end(self) -> None:
        """Raises InvalidReply if the stream ended before every text was complete."""
        missing = len(self._inputs) - self._headers + len(self._arriving)
        if missing:
            raise InvalidReply(f"the stream ended early: {missing} of {len(self._inputs)} texts are incomplete")
