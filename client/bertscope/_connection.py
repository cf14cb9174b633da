# ruff: noqa: ASYNC109  # the timeout is gRPC's deadline, which the server hears of, too
"""The channel of a client, and the one path of every call on it: with threads, and with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from functools import cached_property
from typing import Self, TypeVar

import grpc
import grpc.aio
import grpc.experimental
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from bertscope import _health
from bertscope._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS, ChannelOptions, channel_options, deadline
from bertscope._propagation import Propagate, propagating
from bertscope.credentials import ChannelSecurity, Tls, Token
from bertscope.errors import Cancelled, from_call
from bertscope.v1.ablation_pb2_grpc import AblationServiceStub
from bertscope.v1.attention_pb2_grpc import AttentionServiceStub
from bertscope.v1.benchmark_pb2_grpc import BenchmarkServiceStub
from bertscope.v1.classification_pb2_grpc import ClassificationServiceStub
from bertscope.v1.cloze_pb2_grpc import ClozeServiceStub
from bertscope.v1.model_pb2_grpc import ModelServiceStub

STREAM_IN_CALLER = (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1)
"""Streams are read by the thread that asks for their messages, not by one of gRPC's. A Ctrl-C may come while the caller holds
a lock that the other thread needs, and nothing would ever end the call then."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class Connection:
    """What `Client` calls through."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        token: Token | None = None,
        tls: Tls | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        insecure_token: bool = False,
        propagate: Propagate | None = None,
        options: ChannelOptions = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Prepares a connection; the server is reached by the first call.

        `target` is "host:port" or any other gRPC name; `token` says who calls, a string or a function that gives the one that
        is valid now; `tls` encrypts (`bertscope.Tls(ca="ca.pem")`), or `credentials`, made with gRPC, do. A token goes to
        another machine only encrypted, unless `insecure_token` allows it (where a sidecar encrypts, for one).
        `propagate` writes the headers of the caller's trace (`opentelemetry.propagate.inject`), so that the server's spans
        belong to it. `options` are gRPC channel arguments and win over ours.
        """
        security = ChannelSecurity.of(target, token, tls, credentials, insecure_token=insecure_token)
        arguments = [*channel_options(options, security.options), STREAM_IN_CALLER]
        self._channel = (
            grpc.insecure_channel(target, arguments)
            if security.credentials is None
            else grpc.secure_channel(target, security.credentials, arguments)
        )
        self._metadata = propagating(security.metadata, propagate)
        self._timeout = deadline(timeout, None)
        self._closed = False
        self._ablation = AblationServiceStub(self._channel)
        self._attention = AttentionServiceStub(self._channel)
        self._benchmark = BenchmarkServiceStub(self._channel)
        self._classification = ClassificationServiceStub(self._channel)
        self._cloze = ClozeServiceStub(self._channel)
        self._models = ModelServiceStub(self._channel)
        self._health_check = self._channel.unary_unary(_health.CHECK, StringValue.SerializeToString, Int32Value.FromString)
        self._health_watch = self._channel.unary_stream(_health.WATCH, StringValue.SerializeToString, Int32Value.FromString)

    def close(self) -> None:
        """Ends the connection; calls that still run raise Cancelled."""
        self._closed = True
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self, method: grpc.UnaryUnaryMultiCallable[Request, Response], request: Request, timeout: float | None
    ) -> Response:
        """The one path of every call that answers once, within the client's timeout unless it has its own."""
        return self._call_long(method, request, self._timeout if timeout is None else timeout)

    def _call_long(
        self, method: grpc.UnaryUnaryMultiCallable[Request, Response], request: Request, timeout: float | None
    ) -> Response:
        """The same of a call that works for long: it has no limit unless it is given one."""
        self._require_open()
        seconds = deadline(timeout, None)
        try:
            return method(request, timeout=seconds, metadata=self._metadata())
        except grpc.RpcError as error:
            raise from_call(error, seconds) from error

    def _stream(
        self,
        method: grpc.UnaryStreamMultiCallable[Request, Response],
        request: Request,
        timeout: float | None,
        *,
        wait_for_ready: bool = False,
    ) -> Generator[Response, None, None]:
        """The one path of every call that streams; closing the generator cancels the call."""
        self._require_open()
        seconds = deadline(timeout, None)
        call = method(request, timeout=seconds, metadata=self._metadata(), wait_for_ready=wait_for_ready)
        try:
            yield from call
        except grpc.RpcError as error:
            raise from_call(error, seconds) from error
        finally:
            call.cancel()

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed")


class _AsyncStubs:
    """A channel of `grpc.aio` and the stubs on it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.ablation = AblationServiceStub(channel)
        self.attention = AttentionServiceStub(channel)
        self.benchmark = BenchmarkServiceStub(channel)
        self.classification = ClassificationServiceStub(channel)
        self.cloze = ClozeServiceStub(channel)
        self.models = ModelServiceStub(channel)
        self.health_check = channel.unary_unary(_health.CHECK, StringValue.SerializeToString, Int32Value.FromString)
        self.health_watch = channel.unary_stream(_health.WATCH, StringValue.SerializeToString, Int32Value.FromString)


class AsyncConnection:
    """What `AsyncClient` calls through."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        token: Token | None = None,
        tls: Tls | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        insecure_token: bool = False,
        propagate: Propagate | None = None,
        options: ChannelOptions = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """As `Client`. May be called outside the event loop: the first call binds the client to the loop it runs in."""
        self._target = target
        self._security = ChannelSecurity.of(target, token, tls, credentials, insecure_token=insecure_token)
        self._metadata = propagating(self._security.metadata, propagate)
        self._options = channel_options(options, self._security.options)
        self._timeout = deadline(timeout, None)
        self._closed = False

    async def close(self) -> None:
        """Ends the connection; calls that still run raise Cancelled."""
        if self._closed:
            return
        self._closed = True  # First, so that the calls that the channel now cancels know why.
        if "_stubs" in self.__dict__:
            await self._stubs.channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @cached_property
    def _stubs(self) -> _AsyncStubs:
        """Made by the first call, because a channel of `grpc.aio` belongs to the event loop it is made in."""
        self._require_open()
        credentials = self._security.credentials
        if credentials is None:
            return _AsyncStubs(grpc.aio.insecure_channel(self._target, self._options))
        return _AsyncStubs(grpc.aio.secure_channel(self._target, credentials, self._options))

    async def _call(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request, timeout: float | None
    ) -> Response:
        """The one path of every call that answers once, within the client's timeout unless it has its own."""
        return await self._call_long(method, request, self._timeout if timeout is None else timeout)

    async def _call_long(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request, timeout: float | None
    ) -> Response:
        """The same of a call that works for long: it has no limit unless it is given one."""
        self._require_open()
        seconds = deadline(timeout, None)
        try:
            return await method(request, timeout=seconds, metadata=self._metadata())
        except grpc.aio.AioRpcError as error:
            raise from_call(error, seconds) from error
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise

    async def _stream(
        self,
        method: grpc.aio.UnaryStreamMultiCallable[Request, Response],
        request: Request,
        timeout: float | None,
        *,
        wait_for_ready: bool = False,
    ) -> AsyncGenerator[Response, None]:
        """The one path of every call that streams; closing the generator cancels the call."""
        self._require_open()
        seconds = deadline(timeout, None)
        call = method(request, timeout=seconds, metadata=self._metadata(), wait_for_ready=wait_for_ready)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise from_call(error, seconds) from error
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        finally:
            call.cancel()

    def _raise_if_closed(self) -> None:
        """Tells a call that `close` ended from a task that was cancelled, which must stay so."""
        task = asyncio.current_task()
        if self._closed and not (task and task.cancelling()):
            raise Cancelled("the client was closed while the call ran") from None

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed")
