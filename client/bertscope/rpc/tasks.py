"""Makes the calls of the asynchronous client: a channel of `grpc.aio`, and several calls in tasks. `threads` has the same
names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from bertscope.errors import Cancelled
from bertscope.rpc.channel import Failures, Methods
from bertscope.rpc.credentials import ChannelSecurity, Metadata
from bertscope.rpc.targets import Target

Reply = TypeVar("Reply", bound=Message)
T = TypeVar("T")

sleep = asyncio.sleep
Later = Coroutine[Any, Any, T]
"""The result of a call of a method: to be awaited."""


async def computed(work: Callable[[], T]) -> T:
    """Returns the result of work that takes long, without blocking the event loop."""
    return await asyncio.to_thread(work)


class Channel(Methods):
    """A channel of `grpc.aio`. The first call makes it, because it belongs to the event loop that it is made in."""

    def __init__(self, target: Target, security: ChannelSecurity, options: list[tuple[str, Any]]) -> None:
        super().__init__()
        self._target, self._security, self._options = target, security, options
        self._channel: grpc.aio.Channel | None = None

    async def close(self) -> None:
        """Cancels the running calls."""
        self._closed = True  # First, so that the cancelled calls know why.
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def unary(self, path: str, reply: type[Reply]) -> grpc.aio.UnaryUnaryMultiCallable[Message, Reply]:
        """Returns a unary method. Raises RuntimeError after `close`."""
        return self._method(lambda: self._opened().unary_unary, path, reply)

    def stream(self, path: str, reply: type[Reply]) -> grpc.aio.UnaryStreamMultiCallable[Message, Reply]:
        """Returns a streaming method. Raises RuntimeError after `close`."""
        return self._method(lambda: self._opened().unary_stream, path, reply)

    def failures(self, seconds: float | None) -> Failures:
        """Turns failures of a call with this timeout into our errors."""
        return _TaskFailures(self._target, seconds, self)

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def _opened(self) -> grpc.aio.Channel:
        if self._channel is None:
            name, credentials = self._target.name, self._security.credentials
            self._channel = (
                grpc.aio.insecure_channel(name, self._options)
                if credentials is None
                else grpc.aio.secure_channel(name, credentials, self._options)
            )
        return self._channel


class _TaskFailures(Failures):
    """Tells a call that `close` ended from a cancelled task, which must stay cancelled."""

    __slots__ = ("_channel",)

    def __init__(self, target: Target, seconds: float | None, channel: Channel) -> None:
        super().__init__(target, seconds)
        self._channel = channel

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, asyncio.CancelledError) and self._channel.closed:
            task = asyncio.current_task()
            if not (task and task.cancelling()):
                raise Cancelled("the client was closed while the call ran") from None
        super().__exit__(kind, error, trace)


class Call(Generic[Reply]):
    """One of several concurrent calls, in its own task."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        request: Message,
        reply: type[Reply],
        seconds: float | None,
        metadata: Metadata | None,
    ) -> None:
        self._channel, self._path, self._request, self._reply = channel, path, request, reply
        self._limit, self._metadata = seconds, metadata
        self._task: asyncio.Task[Reply]
        self.seconds = 0.0
        """The duration of the call."""

    def begin(self) -> None:
        """Sends the request."""
        self._task = asyncio.create_task(self._run())

    async def result(self) -> Reply:
        """Waits for the answer."""
        return await self._task

    async def _run(self) -> Reply:
        began = time.monotonic()
        with self._channel.failures(self._limit):
            method = self._channel.unary(self._path, self._reply)
            reply = await method(self._request, timeout=self._limit, metadata=self._metadata)
        self.seconds = time.monotonic() - began
        return reply


async def cancel_all(calls: Iterable[Call[Any]]) -> None:
    """Ends the calls, and waits until they have ended: asyncio logs a task that nobody awaits as lost."""
    tasks = [call._task for call in calls]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
