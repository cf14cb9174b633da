"""A bare grpc.aio server, which answers any method with a reply of the size that its request asks for.

    python -m benchmarks.host.echo LOOP        asyncio or uvloop; prints its port

A request begins with the size of its reply, eight bytes, little-endian.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

SIZE_BYTES = 8
UNARY, STREAM = "/bertscope.benchmarks.Echo/Unary", "/bertscope.benchmarks.Echo/Stream"


def ask(size: int, length: int) -> bytes:
    """Returns a request of `length` bytes for a reply of `size` bytes."""
    return size.to_bytes(SIZE_BYTES, "little").ljust(length, b"x")


class Echo(grpc.GenericRpcHandler):
    """Answers both methods."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method == STREAM:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._unary)

    async def _unary(self, request: bytes, _: Any) -> bytes:
        return bytes(int.from_bytes(request[:SIZE_BYTES], "little"))

    async def _stream(self, request: bytes, _: Any) -> AsyncIterator[bytes]:
        yield bytes(int.from_bytes(request[:SIZE_BYTES], "little"))


async def serve() -> None:
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    if sys.argv[1] == "uvloop":
        import uvloop

        uvloop.run(serve())
    else:
        asyncio.run(serve())
