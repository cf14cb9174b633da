"""Writes chunks of attention maps as protobuf would, but copies their bytes once.

From the device to the wire, a map is copied: from the attention's buffer to its place in the text's tensor, where it also gets
its number format and loses its padding; from the device to the host (not on a CPU); into a chunk's message, here; into gRPC's
own buffer; and by the system, to the socket. protobuf's objects would copy it four times more: into the chunk, into the
response, into the encoder's buffer, which grows as it is written, and into bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bertscope.v1.attention_pb2 import AttentionChunk, ExtractAttentionResponse

CHUNK_BYTES = 1024 * 1024
"""Size of a message's data, bytes. Larger ones travel slower over loopback: 2.6 GB/s at 1 MiB, 1.2 at 4, 0.46 at 16 (measured
with grpcio 1.76)."""

LENGTH_DELIMITED = 2
"""protobuf's wire type of bytes and messages, in the lower three bits of a field's tag."""


def render_chunks(index: int, offset: int, maps: np.ndarray[Any, Any]) -> Iterator[bytes]:
    """Renders one layer's maps, contiguous, as serialised responses; `offset` is where they begin in the tensor, bytes."""
    little = maps.astype(maps.dtype.newbyteorder("<"), copy=False)
    data = little.reshape(-1).view(np.uint8).data
    for begin in range(0, len(data), CHUNK_BYTES):
        part = data[begin : begin + CHUNK_BYTES]
        chunk = AttentionChunk(input_index=index, offset=offset + begin).SerializeToString()
        chunk += _header(AttentionChunk.DATA_FIELD_NUMBER, len(part))
        yield b"".join((_header(ExtractAttentionResponse.CHUNK_FIELD_NUMBER, len(chunk) + len(part)), chunk, part))


def _header(field: int, size: int) -> bytes:
    """Returns what precedes `size` bytes of a field."""
    return _varint(field << 3 | LENGTH_DELIMITED) + _varint(size)


def _varint(value: int) -> bytes:
    """Returns seven bits a byte, the lowest first; all but the last have the eighth bit set."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
