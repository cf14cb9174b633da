"""Handles every call of our own services, each in one straight line: `Call.admit`, parse, answer, send, `Call.end`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol, TypeAlias

import grpc

from bertscope_service.contract import METHODS, Method
from bertscope_service.errors import InvalidArgument
from bertscope_service.observability.metrics import MethodMetrics
from bertscope_service.rpc.call_stages import Call, Calls, Context
from bertscope_service.rpc.malformed import Malformed
from bertscope_service.rpc.message_parts import parse_in_parts, serialize_in_parts
from bertscope_service.rpc.status import WITHOUT_STATUS, SentStatus

INLINE_BYTES = 128 * 1024
"""Smaller requests are parsed on the loop, in some milliseconds at most."""

IDLE_SECONDS = 0.02
"""If no call came for this long, none waits to be accepted, and all replies have been sent."""

Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints do not cover asyncio."""

Continuation: TypeAlias = Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]


class Compute(Protocol):
    """Runs a computation in a thread, in its client's turn; see Engine.compute."""

    def __call__(self, work: Callable[[], Any], *, client: str, deadline: float | None) -> Awaitable[Any]: ...


Raw: TypeAlias = bytes | AsyncIterator[bytes]
"""A serialised request, or a stream of one that is not read yet."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """The handlers of a method: one gets the request, the other can end the call without reading it."""

    reading: Handler
    unread: Handler


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the methods of our own services; for health, reflection and channelz, it only rejects malformed requests.

    * A request that is not valid protobuf (text that is not UTF-8, for one) is INVALID_ARGUMENT; grpc itself would say UNKNOWN.
    * A servicer's exception becomes a status, once, here.
    * While `draining`, new calls get UNAVAILABLE.
    * Calls over the limits are rejected before their requests are parsed, and before they are read, while calls are being
      rejected. They share a line of the log each second; at the debug level each has its own.
    * A reply counts against the memory for all replies until its caller has it; a reply that finds none left is rejected.
    * Every call has a request id, the caller's `x-request-id` or a new one; it is returned in the trailing metadata. It is not
      in the initial metadata: once they are sent, gRPC clients no longer retry a call.
    """

    def __init__(self, calls: Calls, malformed: Malformed, compute: Compute) -> None:
        """`compute` parses large requests."""
        self.calls = calls
        self._malformed = malformed
        self._compute = compute
        self._wrapped: dict[str, Wrapped] = {}
        self._arrived = False

    async def wait_until_idle(self, seconds: float) -> None:
        """Waits for a moment in which no call runs and none comes in, for at most `seconds`.

        Calls wait inside gRPC until the loop accepts them, for a second under load. At that moment all received calls are
        accepted.
        """
        end = time.monotonic() + seconds
        self._arrived = True
        while (self._arrived or self.calls.in_flight) and time.monotonic() < end:
            self._arrived = False
            await asyncio.sleep(IDLE_SECONDS)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        self._arrived = True
        self._malformed.check_metadata(handler_call_details.invocation_metadata or ())
        wrapped = await self.wrapped(continuation, handler_call_details)
        if wrapped is None:
            return None
        # gRPC reads the request of a unary call before it asks the handler, and that of a stream when its handler does.
        return wrapped.unread if self.calls.load_shedder.refusing else wrapped.reading

    async def wrapped(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Wrapped | None:
        """Returns the handlers of a method, or None if there is no such method."""
        path = details.method
        wrapped = self._wrapped.get(path)
        if wrapped is None:
            handler = await continuation(details)
            if handler is not None:
                # Only existing methods get here, so this grows no larger than the contract.
                method = METHODS.get(path)
                wrapped = self._wrapped[path] = self._wrap(handler, method) if method else self._guard(handler)
        return wrapped

    def _guard(self, handler: Handler) -> Wrapped:
        guarded = self._malformed.guard(handler)
        return Wrapped(guarded, guarded)

    def _wrap(self, handler: Handler, method: Method) -> Wrapped:
        stream: Any = grpc.stream_stream_rpc_method_handler  # typed without asyncio
        serialised: dict[str, Any] = {"response_serializer": bytes}  # a reply's memory is counted before it is sent
        if method.streaming:
            replies = self._streaming(handler, method)
            return Wrapped(grpc.unary_stream_rpc_method_handler(replies, **serialised), stream(replies, **serialised))
        answer = self._unary(handler, method)

        async def reading(raw: bytes, context: Context) -> bytes:
            reply = await answer(raw, context)
            if isinstance(reply, SentStatus):
                del raw  # as below
                await _abort(context, reply)
            return reply

        async def unread(requests: AsyncIterator[bytes], context: Context) -> None:
            reply = await answer(requests, context)
            if isinstance(reply, SentStatus):
                # This takes less than an abort, which raises an exception. A unary handler must abort: gRPC would send its
                # empty reply before the status, and other clients than Python's would take that for an answer.
                context.set_code(reply.code)
                context.set_details(reply.details)
                context.set_trailing_metadata(reply.trailing_metadata)
            else:
                with _until_gone():
                    await context.write(reply)

        return Wrapped(grpc.unary_unary_rpc_method_handler(reading, **serialised), stream(unread, **serialised))

    def _unary(self, handler: Handler, method: Method) -> Callable[[Raw, Context], Awaitable[bytes | SentStatus]]:
        """Returns a function that returns the reply of a call, or the status of its error."""
        counts, serialize = MethodMetrics(self.calls.metrics, method.name), handler.response_serializer or bytes

        async def answer(raw: Raw, context: Context) -> bytes | SentStatus:
            call = Call(self.calls, method, counts, context)
            try:
                await call.admit()
                request = await self._parsed(handler, method, call, await _read(raw))
                reply = call.hold(await self._serialized(call, serialize, await handler.unary_unary(request, context)))
                await call.may_answer()
            except WITHOUT_STATUS:
                call.cut_off()
                raise
            except BaseException as error:  # noqa: BLE001 - all become statuses here
                return call.fail(error)
            else:
                return reply
            finally:
                call.end()

        return answer

    async def _parsed(self, handler: Handler, method: Method, call: Call, raw: bytes) -> Any:
        """Returns the request of a call. Raises InvalidArgument, Overloaded."""
        large = len(raw) > INLINE_BYTES
        call.received(raw, large=large)
        if not large:
            return self._malformed.parse(handler, raw)
        with self._malformed.parsing():
            return await self._compute(partial(parse_in_parts, method.request, raw), client=call.client, deadline=call.deadline)

    async def _serialized(self, call: Call, serialize: Callable[[Any], bytes], reply: Any) -> bytes:
        """Returns the bytes of a reply."""
        if isinstance(reply, bytes):
            return reply
        if not call.large_reply:
            return serialize(reply)
        found: bytes = await self._compute(partial(serialize_in_parts, reply), client=call.client, deadline=call.deadline)
        return found

    def _streaming(self, handler: Handler, method: Method) -> Callable[[Raw, Context], AsyncIterator[bytes]]:
        counts, serialize = MethodMetrics(self.calls.metrics, method.name), handler.response_serializer or bytes

        async def answer(raw: Raw, context: Context) -> AsyncIterator[bytes]:
            call, begun, status = Call(self.calls, method, counts, context), False, None
            try:
                await call.admit()
                request = await self._parsed(handler, method, call, await _read(raw))
                async with contextlib.aclosing(handler.unary_stream(request, context)) as responses:
                    async for response in responses:
                        # gRPC holds one message of a stream at a time, and requests the next when its reader has room.
                        reply = response if isinstance(response, bytes) else serialize(response)
                        yield call.hold(reply, begun=begun)
                        begun = True
                await call.may_answer()
            except WITHOUT_STATUS:
                call.cut_off()
                raise
            except BaseException as error:  # noqa: BLE001 - all become statuses here
                status = call.fail(error)
            finally:
                call.end()
            if status is not None:
                # gRPC's exception keeps this frame, and what it names, until garbage is collected.
                raw, request = b"", None
                await _abort(context, status)

        return answer


@contextlib.contextmanager
def _until_gone() -> Iterator[None]:
    """Sends something. Raises CancelledError if the caller is gone: it cancelled, or its deadline passed, as the server sent
    this. gRPC would log its own error with a trace."""
    try:
        yield
    except grpc.aio.InternalError as gone:
        raise asyncio.CancelledError from gone


async def _abort(context: Context, status: SentStatus) -> NoReturn:
    """Ends a call with an error. Always raises."""
    with _until_gone():
        await context.abort(*status)


async def _read(raw: Raw) -> bytes:
    """Returns the request. Raises InvalidArgument if its stream ends without one."""
    if isinstance(raw, bytes):
        return raw
    async for request in raw:
        return request
    raise InvalidArgument("", "the call holds no request; send one message", "MALFORMED_REQUEST")
