"""Runs the page on this machine, until Ctrl-C."""

import asyncio
import secrets
import socket
from collections.abc import Callable

import uvicorn
from bertscope import AsyncClient, BertscopeError

from bertscope_workbench.explore.app import make_app
from bertscope_workbench.local_http.connections import MAX_HEAD_BYTES, BoundedConnection, BoundedServer

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


def make_server(
    client: AsyncClient, *, target: str, key: str, port: int, started: Callable[[], object] = lambda: None
) -> BoundedServer:
    """Returns the HTTP server of the page, to run on a socket that listens on `port`; `started` is called when it answers."""
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
    return BoundedServer(config, started)


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
    """

    async def look() -> None:
        try:
            await client.list_models(timeout=FIRST_ANSWER_SECONDS)
        except BertscopeError as error:
            unanswered(error)

    key, port = secrets.token_urlsafe(32), listener.getsockname()[1]
    async with client:
        address = f"http://{HOST}:{port}/#key={key}"
        server = make_server(client, target=target, key=key, port=port, started=lambda: started(address))
        looking = asyncio.create_task(look())
        try:
            await server.serve(sockets=[listener])
        finally:
            looking.cancel()
