"""The HTTP port beside gRPC: metrics for scrapes, and the server's health for probes that speak no gRPC.

It has a thread and an event loop of its own: it answers while gRPC's loop is busy, and a page of metrics that takes long holds
up no call. A connection is one request and its answer. There are at most `MAX_CONNECTIONS`; the oldest gives its place to a new
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.client import parse_headers
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from prometheus_client import CollectorRegistry, make_wsgi_app

from bertscope_service.rpc.addresses import Address, joined, unusable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

METRICS, HEALTH = "/metrics", ("/healthz", "/readyz")

MAX_CONNECTIONS = 64
"""Scrapes and probes need a few."""
MAX_WAITING = 128
"""Connections that the system keeps until they are accepted."""
MAX_HEAD_BYTES = 16 << 10
"""The most bytes of a request line with its headers."""
REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, and how long its answer to be read."""
ACCEPT_AGAIN_SECONDS = 1.0
"""Wait after the system had no descriptor for a connection."""

logger = logging.getLogger(__name__)


def serve_http(registry: CollectorRegistry, serving: Callable[[], bool], address: Address) -> tuple[int, contextlib.ExitStack]:
    """Answers requests in a thread. Returns the port, and a stack that ends it when closed.

    `METRICS` is what Prometheus reads. `HEALTH` says what gRPC's health says: status 200 while `serving` is true, 503 while
    models load, a device is stalled, or the server stops. Any other path is 404. Raises OSError.
    """
    host, port = address
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(place[:2], family=family, backlog=MAX_WAITING, dualstack_ipv6=dual)
    except OSError as error:
        raise OSError(unusable("serve metrics", joined(host, port), error, "--metrics-host", "--metrics-port")) from error
    listener.setblocking(False)
    loop = asyncio.SelectorEventLoop()
    accepting = loop.create_task(_accept(listener, _application(registry, serving)))

    def run() -> None:
        with contextlib.closing(loop), listener, contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(accepting)

    def stop() -> None:
        loop.remove_reader(listener)  # A connection that comes now is not accepted by a task that ends.
        accepting.cancel()

    thread = threading.Thread(target=run, name="http", daemon=True)
    bound: int = listener.getsockname()[1]
    thread.start()
    end = contextlib.ExitStack()
    end.callback(thread.join)
    end.callback(loop.call_soon_threadsafe, stop)
    return bound, end


async def _accept(listener: socket.socket, application: WSGIApplication) -> None:
    """Accepts connections one at a time, so that a burst of them takes no more descriptors than there may be connections."""
    loop, answering = asyncio.get_running_loop(), dict[asyncio.Task[None], None]()  # the oldest first
    async with asyncio.TaskGroup() as group:
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # This process has no descriptor left, or the connection has gone already.
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            task = group.create_task(_answer(connection, application))
            answering[task] = None
            task.add_done_callback(answering.pop)
            task.add_done_callback(lambda _, ended=connection: ended.close())  # type: ignore[misc]  # also one that never began
            if len(answering) > MAX_CONNECTIONS:
                oldest = next(iter(answering))
                oldest.cancel()
                await asyncio.wait([oldest])
            await asyncio.sleep(0)  # A connection that waits is accepted without a turn of the loop.


async def _answer(connection: socket.socket, application: WSGIApplication) -> None:
    """Answers the request of a connection, and closes it; one that is no request, or too slow, gets no answer."""
    with contextlib.suppress(Exception):  # Whatever a connection sends or does, the others are answered.
        reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_HEAD_BYTES)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(_reply(head, application))
            writer.close()
            async with asyncio.timeout(REQUEST_SECONDS):
                await writer.wait_closed()
        finally:
            writer.transport.abort()


def _reply(head: bytes, application: WSGIApplication) -> bytes:
    """Returns the whole answer to a request. Raises ValueError or HTTPException for one that is not of HTTP."""
    line, _, rest = head.partition(b"\r\n")
    method, target, _ = line.decode("latin-1").split(" ")
    headers = parse_headers(io.BytesIO(rest))
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": unquote(path, "latin-1"), "QUERY_STRING": query}
    environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    started: list[str] = []

    def start(status: str, fields: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
        started[:] = [f"HTTP/1.0 {status}", *(f"{name}: {value}" for name, value in fields)]
        return lambda _: None

    try:
        content = b"".join(application(environ, start))
    except Exception:
        logger.exception("the HTTP port could not answer %s", path)
        content = b"".join(_say(start, HTTPStatus.INTERNAL_SERVER_ERROR, "This page failed; the server's log says why."))
    return "\r\n".join([*started, "Connection: close", "\r\n"]).encode("latin-1") + (b"" if method == "HEAD" else content)


def _application(registry: CollectorRegistry, serving: Callable[[], bool]) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == METRICS:
            return metrics(environ, start_response)
        if path not in HEALTH:
            return _say(start_response, HTTPStatus.NOT_FOUND, f"There is {METRICS}, {' and '.join(HEALTH)}.")
        if serving():
            return _say(start_response, HTTPStatus.OK, "SERVING")
        return _say(start_response, HTTPStatus.SERVICE_UNAVAILABLE, "NOT_SERVING")

    return answer


def _say(start_response: StartResponse, status: HTTPStatus, text: str) -> list[bytes]:
    content = f"{text}\n".encode()
    start_response(
        f"{status.value} {status.phrase}",
        [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(content))), ("Cache-Control", "no-store")],
    )
    return [content]
