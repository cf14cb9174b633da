"""Where a server listens: gRPC, in clear or with TLS, and its metrics over HTTP."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import grpc
from prometheus_client import CollectorRegistry, start_http_server

from bertscope_service.settings import Settings


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a running server listens."""

    grpc: int
    metrics: int


def listen(server: grpc.aio.Server, settings: Settings, credentials: grpc.ServerCredentials | None) -> int:
    """Let a server that has not begun take calls on the port of the settings, which is returned. Raises OSError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = _address(settings.host, settings.port)
    try:
        socket.getaddrinfo(settings.host or None, settings.port)  # tells a name that nobody knows from a taken port
        # gRPC would log a taken port in its own words, beside ours.
        socket.create_server((settings.host, settings.port), family=family).close()
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except (OSError, RuntimeError) as error:
        raise OSError(_unusable("listen", address, error, "--host", "--port")) from error


def serve_metrics(registry: CollectorRegistry, settings: Settings) -> tuple[int, contextlib.ExitStack]:
    """Answer scrapes in a thread; the port, and what ends it, which waits for the thread. Raises OSError."""
    host = settings.host if settings.metrics_host is None else settings.metrics_host
    try:
        http, thread = start_http_server(settings.metrics_port, host, registry)
    except OSError as error:
        address = _address(host, settings.metrics_port)
        raise OSError(_unusable("serve metrics", address, error, "--metrics-host", "--metrics-port")) from error
    end = contextlib.ExitStack()
    end.callback(thread.join)
    end.callback(http.server_close)
    end.callback(http.shutdown)
    return http.server_port, end


def write_ports(path: Path | None, ports: Ports) -> None:
    """Tell whoever started the server where it listens; the file appears whole."""
    if path is None:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"port": ports.grpc, "metrics_port": ports.metrics}))
    draft.replace(path)


def _unusable(what: str, address: str, error: Exception, host: str, port: str) -> str:
    """What keeps a socket from an address, and the flag to change."""
    match error:
        case socket.gaierror() | OSError(errno=errno.EADDRNOTAVAIL):
            reason = f"this machine has no such address; {host} takes one of its own, or 0.0.0.0 for all"
        case OSError(errno=errno.EACCES):
            reason = f"that port needs more rights than this process has; choose one above 1023 with {port}"
        case _:
            reason = f"is the port taken? choose another with {port}"
    return f"can't {what} on {address}; {reason}"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
