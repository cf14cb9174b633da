"""Checks and reserves the addresses to listen on, and explains why an address can't be used."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
"""Host and port."""


def check_free(address: Address, metrics_address: Address) -> None:
    """Raises OSError unless gRPC and the metrics can listen at their addresses.

    This may change until the server listens, which checks again; but that comes after imports that take seconds.
    """
    with ExitStack() as held:  # both at once, for they may be the same
        held.enter_context(reserve(address))
        held.enter_context(reserve_metrics(metrics_address))


def reserve(address: Address) -> socket.socket:
    """Returns a socket bound to gRPC's address. Raises OSError, whose message says what to do."""
    return _reserve("listen", *address, "--host", "--port")


def reserve_metrics(address: Address) -> socket.socket:
    """Returns a socket bound to the metrics' address. Raises OSError likewise."""
    return _reserve("serve metrics", *address, "--metrics-host", "--metrics-port")


def unusable(what: str, address: str, error: Exception, host: str, port: str) -> str:
    """Returns the reason why a socket can't use an address, and the flag to change."""
    match error:
        case socket.gaierror() | OSError(errno=errno.EADDRNOTAVAIL):
            reason = f"this machine has no such address; {host} takes one of its own, or 0.0.0.0 for all"
        case OSError(errno=errno.EACCES):
            reason = f"that port needs more rights than this process has; choose one above 1023 with {port}"
        case _:
            reason = f"is the port taken? choose another with {port}"
    return f"can't {what} on {address}; {reason}"


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reserve(what: str, host: str, port: int, host_flag: str, port_flag: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host or None, port)  # distinguishes an unknown name from a taken port
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(unusable(what, joined(host, port), error, host_flag, port_flag)) from error
