"""Makes the calls of the synchronous client: a channel of `grpc`, and several calls in threads. `tasks` has the same names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Annotated, Any, Generic, TypeVar

import grpc
import grpc.experimental
from google.protobuf.message import Message

from bertscope.rpc.channel import Failures, Methods
from bertscope.rpc.credentials import ChannelSecurity, Metadata
from bertscope.rpc.targets import Target

Reply = TypeVar("Reply", bound=Message)
T = TypeVar("T")

STREAM_IN_CALLER = (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1)
"""Streams are read by the thread that requests their messages, not by one of gRPC's. Otherwise a Ctrl-C might come while the
caller holds a lock that the other thread needs, and nothing would ever end the call."""

sleep = time.sleep
Later = Annotated[T, "at once"]
"""The result of a call of a method: there when it returns."""


def computed(work: Callable[[], T]) -> T:
    """Returns the result of work that takes long."""
    return work()


class Channel(Methods):
    """A channel of `grpc`."""

    def __init__(self, target: Target, security: ChannelSecurity, options: list[tuple[str, Any]]) -> None:
        arguments = [*options, STREAM_IN_CALLER]
        super().__init__()
        self._target = target
        self._channel = (
            grpc.insecure_channel(target.name, arguments)
            if security.credentials is None
            else grpc.secure_channel(target.name, security.credentials, arguments)
        )

    def close(self) -> None:
        """Cancels the running calls."""
        self._closed = True
        self._channel.close()

    def unary(self, path: str, reply: type[Reply]) -> grpc.UnaryUnaryMultiCallable[Message, Reply]:
        """Returns a unary method. Raises RuntimeError after `close`."""
        return self._method(lambda: self._channel.unary_unary, path, reply)

    def stream(self, path: str, reply: type[Reply]) -> grpc.UnaryStreamMultiCallable[Message, Reply]:
        """Returns a streaming method. Raises RuntimeError after `close`."""
        return self._method(lambda: self._channel.unary_stream, path, reply)

    def failures(self, seconds: float | None) -> Failures:
        """Turns failures of a call with this timeout into our errors."""
        return Failures(self._target, seconds)


class Call(Generic[Reply]):
    """One of several concurrent calls, in its own thread.

    A Ctrl-C is raised in the main thread, wherever that is; inside gRPC's bookkeeping it would leave a channel that never
    closes. So the caller's thread only waits, and cancels.
    """

    def __init__(
        self,
        channel: Channel,
        path: str,
        request: Message,
        reply: type[Reply],
        seconds: float | None,
        metadata: Metadata | None,
    ) -> None:
        self._channel, self._method, self._request = channel, channel.unary(path, reply), request
        self._limit, self._metadata = seconds, metadata
        self._future: Any = None
        self._cancelled = False
        self._outcome: SimpleQueue[tuple[Reply | None, BaseException | None]] = SimpleQueue()
        self.seconds = 0.0
        """The duration of the call."""

    def begin(self) -> None:
        """Sends the request."""
        threading.Thread(target=self._run, daemon=True, name="bertscope-call").start()

    def result(self) -> Reply:
        """Waits for the answer."""
        reply, error = self._outcome.get()
        with self._channel.failures(self._limit):
            if error is not None:
                raise error
        return reply  # type: ignore[return-value]  # set if there is no error

    def cancel(self) -> None:
        """Ends the call if it still runs."""
        self._cancelled = True
        if self._future is not None:
            self._future.cancel()

    def _run(self) -> None:
        began = time.monotonic()
        outcome: tuple[Reply | None, BaseException | None]
        try:
            self._future = self._method.future(self._request, timeout=self._limit, metadata=self._metadata)
            if self._cancelled:
                self._future.cancel()
            outcome = self._future.result(), None
        except BaseException as error:  # noqa: BLE001  # raised again in `result`
            outcome = None, error
        self.seconds = time.monotonic() - began
        self._outcome.put(outcome)


def cancel_all(calls: Iterable[Call[Any]]) -> None:
    """Ends the calls."""
    for call in calls:
        call.cancel()
