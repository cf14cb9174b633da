"""Bounds what connections may hold: there are not too many, and none waits for the rest of a request for ever.

Programs without a key can connect, too. Without bounds, whatever connects and sends nothing takes a file descriptor until the
server has none left, and then its owner gets no answer.
"""

import asyncio
import socket
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 64
"""A browser opens six for each host."""
ACCEPTED_AT_ONCE = 8
"""Connections that are accepted before one can be ended: for asyncio the length of the queue."""
MAX_WAITING = 1024
"""Connections that the system keeps until they are accepted."""
REQUEST_SECONDS = 20.0
"""How long a request may take to arrive, head and body, and an answer that is not waited for to be read."""
MAX_HEAD_BYTES = 1 << 20
"""A browser sends the cookies of every server on this machine to this one, too: up to 180 of 4 KiB."""


class BoundedServer(uvicorn.Server):
    """A server that accepts few connections at a time, so that a burst takes no more descriptors than there may be connections.

    SIGTERM and Ctrl-C end it in order: `serve` returns, and the process goes on to its own end.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], object] = lambda: None) -> None:
        """Takes uvicorn's options; `started` is called when connections are answered."""
        config.backlog = ACCEPTED_AT_ONCE
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept; the system's queue stays long."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(MAX_WAITING)
        self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server; a second signal cuts off what still runs. (uvicorn's own would raise the signal again at last.)"""
        self.force_exit, self.should_exit = self.should_exit, True


class BoundedConnection(H11Protocol):
    """A connection that ends if its request does not arrive in time, or, the oldest first, when there are too many.

    A connection whose question is being answered is never ended for another one.
    """

    max_connections = MAX_CONNECTIONS
    request_seconds = REQUEST_SECONDS
    questions: Collection[str] = ("POST",)
    """The methods of requests whose answers may take as long as they take."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Takes what uvicorn gives its protocols."""
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Takes the connection in, if need be in the place of one that is not being answered."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._watch()
        open_ones = [each for each in self.connections if not each.transport.is_closing()]
        if len(open_ones) > self.max_connections:
            waiting = [each for each in open_ones if isinstance(each, BoundedConnection) and not each.is_asking()]
            min(waiting, key=lambda each: each._since).transport.abort()  # This one waits, so that there is one.

    def data_received(self, data: bytes) -> None:
        """Reads what has arrived."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Goes on to the connection's next request."""
        super().on_response_complete()
        self._unwatch()
        self._since = self.loop.time()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._unwatch()
        super().connection_lost(exc)

    def is_asking(self) -> bool:
        """Says whether a whole question has arrived whose answer is not complete: it may take as long as it takes."""
        whole = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        return whole and self.cycle is not None and not self.cycle.response_complete and self.scope["method"] in self.questions

    def _watch(self) -> None:
        """Begins to count when a request is awaited, and stops once it is a whole question: parts do not prolong its time."""
        if self.is_asking() or self.transport.is_closing():
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
