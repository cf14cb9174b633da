"""Runs the page on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable

import uvicorn
from bertscope import AsyncClient, BertscopeError

from bertscope_workbench.explore.app import make_app
from bertscope_workbench.explore.connections import MAX_HEAD_BYTES, BoundedConnection

HOST = "127.0.0.1"
FIRST_ANSWER_SECONDS = 5
"""The page starts without a server, too, and waits for it; after so long without an answer it is said."""
SHUTDOWN_SECONDS = 1
"""Streams that still run then are cut off: their calls are cancelled."""


def listen(port: int) -> socket.socket:
    """Returns a listening socket on this machine's loopback address; port 0 is any free one. Raises OSError if it is taken."""
    # asyncio turns Nagle's algorithm off only for sockets whose protocol is named: small events must not wait for each other.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def make_server(client: AsyncClient, *, target: str, key: str, port: int) -> uvicorn.Server:
    """Returns the HTTP server of the page, to be run on a socket that listens on `port`."""
    config = uvicorn.Config(
        make_app(client, target=target, key=key, port=port),
        access_log=False,
        log_config=None,
        http=BoundedConnection,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


async def serve(
    client: AsyncClient,
    listener: socket.socket,
    *,
    target: str,
    started: Callable[[str], object],
    unanswered: Callable[[BertscopeError], object],
) -> None:
    """Answers on the socket until Ctrl-C or SIGTERM, then closes the client.

    `started` gets the address to open, with its key; `unanswered` why the server at `target` does not answer, if it doesn't.
    Ctrl-C raises KeyboardInterrupt.
    """

    async def look() -> None:
        try:
            await client.list_models(timeout=FIRST_ANSWER_SECONDS)
        except BertscopeError as error:
            unanswered(error)

    key, port = secrets.token_urlsafe(32), listener.getsockname()[1]
    async with client:
        started(f"http://{HOST}:{port}/#key={key}")
        looking = asyncio.create_task(look())
        try:
            await make_server(client, target=target, key=key, port=port).serve(sockets=[listener])
        finally:
            looking.cancel()
