"""The HTTP port beside gRPC: metrics for scrapes, and the server's health for probes that speak no gRPC."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from bertscope_service.rpc.addresses import Address, joined, unusable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

METRICS, HEALTH = "/metrics", ("/healthz", "/readyz")


def serve_http(registry: CollectorRegistry, serving: Callable[[], bool], address: Address) -> tuple[int, contextlib.ExitStack]:
    """Answers requests in threads. Returns the port, and a stack that ends them when closed.

    `METRICS` is what Prometheus reads. `HEALTH` says what gRPC's health says: status 200 while `serving` is true, 503 while
    models load, a device is stalled, or the server stops. Any other path is 404. Raises OSError.
    """
    host, port = address
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        kind = type("_HttpServer", (ThreadingWSGIServer,), {"address_family": family})
        http: WSGIServer = make_server(str(place[0]), port, _application(registry, serving), kind, _QuietHandler)
    except OSError as error:
        raise OSError(unusable("serve metrics", joined(host, port), error, "--metrics-host", "--metrics-port")) from error
    thread = threading.Thread(target=http.serve_forever, name="http", daemon=True)
    thread.start()
    end = contextlib.ExitStack()
    end.callback(thread.join)
    end.callback(http.server_close)
    end.callback(http.shutdown)
    return http.server_port, end


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


class _QuietHandler(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
        pass
