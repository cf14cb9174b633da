"""Holds the connection of a client, and the one path of every call on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Self, TypeVar

import grpc
from google.protobuf.message import Message

from bertscope.rpc.channel import DEFAULT_TIMEOUT_SECONDS, ChannelOptions, channel_options, deadline
from bertscope.rpc.contract import PATHS
from bertscope.rpc.credentials import ChannelSecurity, Propagate, Tls, Token, propagating
from bertscope.rpc.logs import logger
from bertscope.rpc.retries import Retries
from bertscope.rpc.splitting import Limit
from bertscope.rpc.targets import Target
from bertscope.rpc.tasks import Call, Channel

Reply = TypeVar("Reply", bound=Message)


class AsyncConnection:
    """The connection of an `AsyncClient`."""

    def __init__(
        self,
        target: str | None = None,
        *,
        token: Token | None = None,
        tls: Tls | bool | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        insecure_token: bool = False,
        propagate: Propagate | None = None,
        options: ChannelOptions = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: Retries | int = Retries(),  # noqa: B008  # frozen
    ) -> None:
        """Prepares a connection; the server is reached by the first call.
        It may be made outside the event loop, and belongs to the loop of its first call.

        `target` is "host:port" or any other gRPC name; several "host:port" with commas between share the calls. Without it
        the environment's BERTSCOPE_TARGET, else 127.0.0.1:50051.
        `token` says who calls, a string or a function that gives the one that is valid now; `tls` encrypts (True, or
        `bertscope.Tls(ca="ca.pem")`), or `credentials`, made with gRPC, do. A token goes to another machine only encrypted,
        unless `insecure_token` allows it (where a sidecar encrypts, for one).
        `propagate` writes the headers of the caller's trace (`opentelemetry.propagate.inject`), so that the server's spans
        belong to it. `retries` says how often what only reads is tried again, a `Retries` or a number of further attempts (0:
        never). `options` are gRPC channel arguments and win over ours.
        Raises InvalidArgument for a target that can't be one.
        """
        self._retries = Retries.of(retries)
        self._limit = Limit()
        encrypted = bool(tls) or credentials is not None
        found = Target.of(target, encrypted=encrypted)
        security = ChannelSecurity.of(found.name, token, tls, credentials, insecure_token=insecure_token)
        ours = channel_options(options, self._retries, security.options, shared=found.shared)
        self._channel, self._name = Channel(found, security, ours), found.name
        how = "TLS" if encrypted else "clear text"
        logger.info("calls %s over %s; %d attempts of what only reads", found.name, how, self._retries.attempts)
        self._metadata = propagating(security.metadata, propagate)
        self._timeout = deadline(timeout, None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}>"

    async def close(self) -> None:
        """Ends the connection; calls that still run raise Cancelled."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, request: Message, reply: type[Reply], timeout: float | None, *, path: str = "") -> Reply:
        """Makes a unary call, within the client's timeout unless it has its own."""
        return await self._send(request, reply, self._seconds(timeout), path)

    async def _call_long(self, request: Message, reply: type[Reply], timeout: float | None, *, path: str = "") -> Reply:
        """Makes a unary call that may take long: it has no time limit unless it is given one."""
        return await self._send(request, reply, deadline(timeout, None), path)

    def _seconds(self, timeout: float | None) -> float | None:
        """Returns the time limit of a call; the client's own, which was checked before, if it has none."""
        return self._timeout if timeout is None else deadline(timeout, None)

    async def _send(self, request: Message, reply: type[Reply], seconds: float | None, path: str) -> Reply:
        method = self._channel.unary(path or PATHS[request.DESCRIPTOR.full_name], reply)
        with self._channel.failures(seconds):
            return await method(request, timeout=seconds, metadata=self._metadata())

    def _one_of_many(self, request: Message, reply: type[Reply], timeout: float | None) -> Call[Reply]:
        """Returns one of several concurrent calls, which has not begun."""
        seconds = self._seconds(timeout)
        return Call(self._channel, PATHS[request.DESCRIPTOR.full_name], request, reply, seconds, self._metadata())

    async def _stream(
        self, request: Message, reply: type[Reply], timeout: float | None, *, path: str = "", wait_for_ready: bool = False
    ) -> AsyncGenerator[Reply, None]:
        """Makes a streaming call; closing the generator cancels it."""
        seconds = deadline(timeout, None)
        method = self._channel.stream(path or PATHS[request.DESCRIPTOR.full_name], reply)
        call = method(request, timeout=seconds, metadata=self._metadata(), wait_for_ready=wait_for_ready)
        try:
            with self._channel.failures(seconds):
                async for message in call:
                    yield message
        finally:
            call.cancel()
