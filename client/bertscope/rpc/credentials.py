"""Defines the client's credentials, its checks of the server, and the headers of calls: TLS, tokens and the caller's trace."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias

import grpc

from bertscope.errors import invalid_argument

__all__ = ["Tls"]

Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or a function that returns the valid one; it is called before every call."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]

LOCAL_SCHEMES = ("unix", "unix-abstract")
ADDRESS_SCHEMES = ("ipv4", "ipv6")

NO_PROXY = {"grpc.enable_http_proxy": 0}
"""gRPC would send even calls to 127.0.0.1 through the environment's proxy (http_proxy), though they should stay on this
machine."""


@dataclass(frozen=True)
class Tls:
    """TLS to the server; with `certificate` and `key`, mutual TLS. All files are PEM, read when the client is made.

    `Tls()` trusts the authorities that come with gRPC.
    """

    ca: str | PathLike[str] | None = None
    """Certificates of the authorities that must have issued the server's certificate."""
    certificate: str | PathLike[str] | None = None
    """The client's own certificate, for a server that asks for one; needs `key`."""
    key: str | PathLike[str] | None = None
    """Private key of `certificate`."""
    server_name: str | None = None
    """The name in the server's certificate, if it is not the one in the target (through a tunnel, for example)."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise invalid_argument("tls", "certificate and key belong together: give both, or none")

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Returns gRPC's credentials. Raises OSError for a file that can't be read, InvalidArgument for one of another kind."""
        ca, certificate = (_content(file, "certificate") for file in (self.ca, self.certificate))
        return grpc.ssl_channel_credentials(ca, _content(self.key, "private key"), certificate)

    def channel_options(self) -> dict[str, Any]:
        """Returns the channel arguments that go with them."""
        if self.server_name is None:
            return {}
        return {"grpc.ssl_target_name_override": self.server_name, "grpc.default_authority": self.server_name}


@dataclass(frozen=True)
class ChannelSecurity:
    """The credentials of a client's channel and calls."""

    credentials: grpc.ChannelCredentials | None
    """None: in clear text."""
    options: Mapping[str, Any]
    """Channel arguments that go with the credentials."""
    token: Token | None = field(repr=False)

    @classmethod
    def of(
        cls,
        target: str,
        token: Token | None,
        tls: Tls | bool | None,
        credentials: grpc.ChannelCredentials | None,
        *,
        insecure_token: bool,
    ) -> Self:
        """Returns the security of a client. Raises InvalidArgument for contradictory arguments, and for a token that would
        travel in clear text without permission, OSError for a file that can't be read."""
        if tls and credentials is not None:
            raise invalid_argument("tls", "and credentials exclude each other: give one")
        if tls:
            tls = Tls() if tls is True else tls
            return cls(tls.channel_credentials(), tls.channel_options(), token)
        if token is None or credentials is not None or insecure_token:
            return cls(credentials, {}, token)
        if not stays_here(target):
            message = f"would travel to {target} in clear text; use TLS, or insecure_token where something else encrypts"
            raise invalid_argument("token", message)
        return cls(None, NO_PROXY, token)

    def metadata(self) -> Metadata | None:
        """Returns the metadata of the next call. Raises InvalidArgument for an invalid token."""
        if self.token is None:
            return None
        token = self.token if isinstance(self.token, str) else self.token()
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise invalid_argument("token", "must be printable ASCII without spaces; is it the whole token, and nothing else?")
        return (("authorization", f"Bearer {token}"),)


def stays_here(target: str) -> bool:
    """Returns whether all traffic to this gRPC name, and to each of several addresses, stays on this machine."""
    scheme, _, rest = target.partition(":")
    if scheme in LOCAL_SCHEMES:
        return True
    if scheme in ADDRESS_SCHEMES:
        return all(_is_loopback(address) for address in rest.split(","))
    if scheme != "dns":
        return _is_loopback(target)
    server, _, address = rest.rpartition("/")
    # Another machine's name server may resolve localhost to any address.
    return _is_loopback(address) and (server in ("", "//") or not address.startswith("localhost"))


def is_loopback_host(host: str) -> bool:
    """Returns whether a name or address, without a port, is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # The network resolves any other name, and the result may change.
        return False


def _content(path: str | PathLike[str] | None, kind: str) -> bytes | None:
    if path is None:
        return None
    content = Path(path).read_bytes()
    if f"{kind.upper()}-----".encode() not in content:  # gRPC would say so on standard error, and call the server unreachable
        raise invalid_argument("tls", f"{path} holds no {kind} in PEM")
    return content


def _is_loopback(address: str) -> bool:
    """Returns whether HOST:PORT, [HOST]:PORT or HOST is this machine's own."""
    if address.startswith("["):
        host = address[1:].partition("]")[0]
    else:
        host = address.partition(":")[0] if address.count(":") == 1 else address
    return is_loopback_host(host)


Propagate: TypeAlias = Callable[[dict[str, Any]], object]
"""Writes the current trace context into an empty dict of headers; `opentelemetry.propagate.inject` is one."""


def propagating(metadata: Callable[[], Metadata | None], propagate: Propagate | None) -> Callable[[], Metadata | None]:
    """Returns a function that gives each call `metadata` and the trace context at that time."""
    if propagate is None:
        return metadata

    def with_context() -> Metadata:
        headers: dict[str, str] = {}
        propagate(headers)
        return (*(metadata() or ()), *headers.items())

    return with_context
