"""Writes chunks of tensors as protobuf would, but copies their bytes once.

From the device to the wire, values are copied: from the model's buffer to their place in the text's tensor, where they also get
their number format and lose their padding; from the device to the host (not on a CPU); into a chunk's message, here; into
gRPC's own buffer; and by the system, to the socket. protobuf's objects would copy them four times more: into the chunk, into
the response, into the encoder's buffer, which grows as it is written, and into bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bertscope.v1.attention_pb2 import AttentionChunk
from bertscope.v1.inspection_pb2 import InspectionChunk
from bertscope.v1.representation_states_pb2 import StatesChunk
from numpy.typing import NDArray

from bertscope_service.api.wire import header, number

CHUNK_BYTES = 1024 * 1024
"""Size of a message's data, bytes. Larger ones travel slower over loopback: 2.6 GB/s at 1 MiB, 1.2 at 4, 0.46 at 16 (measured
with grpcio 1.76)."""

CHUNK_FIELD = 2
"""Number of the field `chunk` in the responses of all streams of tensors; tests/unit/service/api/test_messages.py compares."""

TENSOR_FIELD = 1
"""Number of the field in chunks that says which tensor they belong to."""


def render_chunks(
    kind: type[AttentionChunk | StatesChunk | InspectionChunk], index: int, offset: int, values: np.ndarray[Any, Any]
) -> Iterator[bytes]:
    """Renders consecutive values of tensor number `index`, such as a layer of a text's, as serialised responses; `offset` is
    where they begin in the tensor, bytes. `kind` is the message of a chunk."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    data = little.reshape(-1).view(np.uint8).data
    for begin in range(0, len(data), CHUNK_BYTES):
        part = data[begin : begin + CHUNK_BYTES]
        chunk = b"".join((number(TENSOR_FIELD, index), number(kind.OFFSET_FIELD_NUMBER, offset + begin)))
        chunk += header(kind.DATA_FIELD_NUMBER, len(part))
        yield b"".join((header(CHUNK_FIELD, len(chunk) + len(part)), chunk, part))


def float_chunks(*arrays: NDArray[np.float32]) -> Iterator[tuple[int, bytes]]:
    """Yields the float32 numbers of arrays, one after another, in parts, each behind the offset at which it begins, bytes."""
    data = b"".join(values.astype("<f4", copy=False).tobytes() for values in arrays)
    return ((begin, data[begin : begin + CHUNK_BYTES]) for begin in range(0, len(data), CHUNK_BYTES))
