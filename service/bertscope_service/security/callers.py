"""Identifies the clients between which a server is shared."""

from __future__ import annotations

import ipaddress
from contextvars import ContextVar
from typing import Literal
from urllib.parse import unquote

from bertscope_service.security.tokens import Principal

Identity = Literal["connection", "address"]

NETWORK_BITS = 64
"""An IPv6 host has a network of this many bits to itself, and may use any of its addresses for each connection."""

current: ContextVar[str] = ContextVar("client")
"""The client of the call that a task answers."""

principal: ContextVar[Principal | None] = ContextVar("principal", default=None)
"""The authenticated caller of that call, on a server with tokens or certificates."""


def identify(peer: str, identity: Identity) -> str:
    """Returns the client of a call from a peer: its name on a server that authenticates callers, else its connection or
    address.

    Unverified metadata do not count: a caller that invents some would be another client with each call.
    """
    known = principal.get()
    if known is not None:
        return f"name:{known.name}"
    return address_of(peer) if identity == "address" else peer


def address_of(peer: str) -> str:
    """Returns the address without the port: "ipv4:10.0.0.1:5000" -> "ipv4:10.0.0.1"; for IPv6, the network. An address without
    a port, as a Unix socket, is returned unchanged."""
    kind, _, rest = peer.partition(":")
    if kind == "ipv4":
        return peer.rpartition(":")[0]
    if kind != "ipv6":
        return peer
    host = unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return peer.rpartition(":")[0]
    if address.ipv4_mapped is not None:
        return f"ipv4:{address.ipv4_mapped}"
    return f"ipv6:{ipaddress.IPv6Network((address, NETWORK_BITS), strict=False)}"
