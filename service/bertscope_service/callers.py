"""Who calls: the identity by which clients share a server."""

from __future__ import annotations

import hashlib
import secrets
from contextvars import ContextVar
from typing import Any, Literal

import grpc

from bertscope_service.security.access import AUTHORIZATION
from bertscope_service.security.tokens import Principal

Identity = Literal["connection", "address"]

SALT = secrets.token_bytes(16)
"""Makes what is kept of a token useless outside this process."""

current: ContextVar[str] = ContextVar("client")
"""The client of the call that a task answers."""

principal: ContextVar[Principal | None] = ContextVar("principal", default=None)
"""Who that is, on a server that knows its callers."""


def identify(context: grpc.aio.ServicerContext[Any, Any], identity: Identity) -> str:
    """The client behind a call: its name, its `authorization` metadata, hashed, or without any its connection or address.

    A server without tokens of its own tells those that come apart, for a proxy may have checked them.
    """
    known = principal.get()
    if known is not None:
        return f"name:{known.name}"
    for name, value in context.invocation_metadata() or ():
        if name == AUTHORIZATION:
            token = value.encode() if isinstance(value, str) else value
            return f"token:{hashlib.blake2b(token, digest_size=16, key=SALT).hexdigest()}"
    peer = context.peer()
    return without_port(peer) if identity == "address" else peer


def without_port(peer: str) -> str:
    """ "ipv4:10.0.0.1:5000" -> "ipv4:10.0.0.1"; a peer that has no port, as a Unix socket, stays as it is."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer
