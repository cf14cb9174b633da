"""Opens the port of gRPC, in clear text or with TLS, and tells the server's ports."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from bertscope_service.rpc.addresses import Address, joined, reserve, unusable


@dataclass(frozen=True, slots=True)
class Ports:
    """The addresses of a running server."""

    grpc: int
    metrics: int


def listen(server: grpc.aio.Server, address: Address, credentials: grpc.ServerCredentials | None) -> int:
    """Opens a port of a server that has not started and returns the port. Raises OSError."""
    reserve(address).close()  # gRPC would log its own error for a taken port, beside ours
    try:
        if credentials is None:
            return server.add_insecure_port(joined(*address))
        return server.add_secure_port(joined(*address), credentials)
    except (OSError, RuntimeError) as error:
        raise OSError(unusable("listen", joined(*address), error, "--host", "--port")) from error


def write_ports(path: Path | None, ports: Ports) -> None:
    """Writes the ports to a file for the process that started the server; the file appears whole."""
    if path is None:
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps({"port": ports.grpc, "metrics_port": ports.metrics}))
    unfinished.replace(path)
