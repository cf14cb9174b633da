"""Serves the tools: over standard input and output, or over HTTP (streamable HTTP), until it is stopped."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bertscope_workbench.agents.calls import Calls
from bertscope_workbench.local_http.connections import BoundedConnection, BoundedServer

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SHUTDOWN_SECONDS = 1
"""Calls that still run then are cancelled."""

MAX_SESSIONS = 256
"""Sessions at a time; one that is not used for half an hour ends."""


class McpConnection(BoundedConnection):
    """A connection whose answers to any method may take long: a session's own stream is a GET."""

    max_connections = MAX_SESSIONS
    questions = ("GET", "POST", "DELETE")


@dataclass(frozen=True)
class HttpOptions:
    """Address, callers' token and certificate of the server of HTTP."""

    host: str = LOOPBACK[0]
    port: int = 0
    token: str | None = None
    """The bearer token that callers must send; None lets every program of this machine call."""

    names: Sequence[str] = ()
    """Names under which others know this machine; a Host header with another one is refused."""

    certificate: Path | None = None
    key: Path | None = None


async def serve_stdio(server: Server[Any], calls: Calls) -> None:
    """Answers on standard input and output until the input ends. Nothing else may write there."""
    async with calls, stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 is any free one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def serve_http(
    server: Server[Any], calls: Calls, listener: socket.socket, http: HttpOptions, started: Callable[[str], object]
) -> None:
    """Answers on a socket until Ctrl-C or SIGTERM; `started` gets the address."""
    names = [*LOOPBACK, *(name for name in (http.host, *http.names) if name not in LOOPBACK)]
    scheme, port = "https" if http.certificate else "http", listener.getsockname()[1]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[pattern for name in names for pattern in (name, f"{name}:*")],
        # Another port of this machine is another origin: what listens there may be anybody's.
        allowed_origins=[f"{scheme}://{name}:{port}" for name in names] + [f"{scheme}://{name}" for name in http.names],
    )
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, transport_security=security, max_sessions=MAX_SESSIONS)
    config = uvicorn.Config(
        app if http.token is None else Bearer(app, http.token),
        access_log=False,
        log_config=None,
        http=McpConnection,
        server_header=False,
        ssl_certfile=http.certificate,
        ssl_keyfile=http.key,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ws="none",
    )
    async with calls:
        address = f"{scheme}://{http.host}:{port}{PATH}"
        await BoundedServer(config, lambda: started(address)).serve(sockets=[listener])


class Bearer:
    """Middleware that passes on what has the token, and answers the rest with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Takes the token that callers must have."""
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        app = self._app
        # Latin-1, as headers are decoded: a token may hold any byte.
        if scope["type"] == "http" and not compare_digest(
            Headers(scope=scope).get("authorization", "").encode("latin-1"), self._expected
        ):
            said = "send the token that bertscope mcp was started with: Authorization: Bearer TOKEN"
            app = JSONResponse({"error": said}, 401, {"www-authenticate": "Bearer"})
        await app(scope, receive, send)


def run(work: Any) -> None:
    """Runs a server until it ends; Ctrl-C is an end, too."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        return
