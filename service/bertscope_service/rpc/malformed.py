"""Counts malformed input: paths that are not UTF-8, metadata that are not ASCII, requests that can't be parsed.

Every client that reaches the port can send them without end, so they share a line of the log each second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeAlias, get_args

import grpc
from google.protobuf.message import DecodeError

from bertscope_service.errors import InvalidArgument
from bertscope_service.observability import grpc_log
from bertscope_service.observability.grpc_log import Part
from bertscope_service.observability.logs import Tally
from bertscope_service.observability.metrics import Metrics
from bertscope_service.rpc.status import sent_status

PARTS: tuple[Part, ...] = get_args(Part)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints do not cover asyncio."""


class Malformed:
    """Counts the malformed input of one server. It belongs to the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tally = Tally("malformed")
        self._loop: asyncio.AbstractEventLoop | None = None
        for part in PARTS:
            # Starts at 0: Prometheus can't see the increase of a series that begins with 1.
            metrics.malformed.labels(part)

    def note(self, part: Part) -> None:
        """Notes a malformed part."""
        self._metrics.malformed.labels(part).inc()
        self._tally.add(part)

    def begin(self) -> None:
        """Counts from now on the input that gRPC would log."""
        self._loop = asyncio.get_running_loop()
        grpc_log.log_filter.install()
        grpc_log.log_filter.listeners.add(self._note_from_any_thread)

    def end(self) -> None:
        """Stops counting it."""
        grpc_log.log_filter.listeners.discard(self._note_from_any_thread)

    def _note_from_any_thread(self, part: Part) -> None:
        """Notes a malformed part, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self.note, part)

    def check_metadata(self, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Counts a call whose metadata have a text that is not ASCII, which gRPC requires."""
        if not all(value.isascii() or name.endswith("-bin") for name, value in metadata):
            self.note("metadata")

    @contextlib.contextmanager
    def parsing(self) -> Iterator[None]:
        """Counts a request that can't be parsed. Raises InvalidArgument then."""
        try:
            yield
        except DecodeError as error:
            self.note("request")
            message = (
                "the request is not a valid protobuf message of this method, or a text in it is not UTF-8; encode text as UTF-8"
            )
            raise InvalidArgument("", message, "MALFORMED_REQUEST") from error

    def parse(self, handler: Handler, raw: bytes) -> Any:
        """Parses the request of a method. Raises InvalidArgument."""
        with self.parsing():
            return handler.request_deserializer(raw)

    def guard(self, handler: Handler) -> Handler:
        """Wraps another library's handler so that it answers malformed requests with INVALID_ARGUMENT; gRPC would answer
        UNKNOWN and log a trace."""
        if handler.request_streaming:
            make: Any = grpc.stream_stream_rpc_method_handler  # typed without asyncio
            return make(self._guarded(handler), None, handler.response_serializer)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._guarded_stream(handler), None, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(self._guarded_unary(handler), None, handler.response_serializer)

    def _guarded(self, handler: Handler) -> Callable[[AsyncIterator[bytes], Context], AsyncIterator[Any]]:
        async def call(raws: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            async def requests() -> AsyncIterator[Any]:
                async for raw in raws:
                    yield self.parse(handler, raw)

            async with (
                _malformed_to_status(context),
                contextlib.aclosing(handler.stream_stream(requests(), context)) as responses,
            ):
                async for response in responses:
                    yield response

        return call

    def _guarded_stream(self, handler: Handler) -> Callable[[bytes, Context], AsyncIterator[Any]]:
        async def call(raw: bytes, context: Context) -> AsyncIterator[Any]:
            async with _malformed_to_status(context):
                request = self.parse(handler, raw)
            async with contextlib.aclosing(handler.unary_stream(request, context)) as responses:
                async for response in responses:
                    yield response

        return call

    def _guarded_unary(self, handler: Handler) -> Callable[[bytes, Context], Awaitable[Any]]:
        async def call(raw: bytes, context: Context) -> Any:
            async with _malformed_to_status(context):
                request = self.parse(handler, raw)
            return await handler.unary_unary(request, context)

        return call


@contextlib.asynccontextmanager
async def _malformed_to_status(context: Context) -> AsyncIterator[None]:
    """Turns a malformed request into a status for its client."""
    try:
        yield
    except InvalidArgument as error:
        try:
            await context.abort(*sent_status(error, ""))
        except grpc.aio.InternalError:
            raise asyncio.CancelledError from error  # the caller is gone
