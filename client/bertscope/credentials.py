"""How a client proves who it is, and makes the server prove it: TLS and tokens."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias

import grpc

from bertscope.errors import invalid_argument

Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or what gives the one that is valid now; it is asked before every call."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]

LOCAL_SCHEMES = ("unix", "unix-abstract")
ADDRESS_SCHEMES = ("ipv4", "ipv6")

NO_PROXY = {"grpc.enable_http_proxy": 0}
"""gRPC asks a proxy that the environment names (http_proxy) for 127.0.0.1, too, and would hand it what should stay here."""


@dataclass(frozen=True)
class Tls:
    """TLS to the server; with `certificate` and `key`, mutual TLS. All files are PEM, read when the client is made.

    `Tls()` trusts the authorities that come with gRPC.
    """

    ca: str | PathLike[str] | None = None
    """Certificates of the authorities that the server's certificate must come from."""
    certificate: str | PathLike[str] | None = None
    """The client's own certificate, for a server that asks for one; needs `key`."""
    key: str | PathLike[str] | None = None
    """Private key of `certificate`."""
    server_name: str | None = None
    """The name that the server's certificate must bear, where it is not the one in the target (through a tunnel, for one)."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise invalid_argument("tls", "certificate and key belong together: give both, or none")

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """The same for gRPC. Raises OSError for a file that can't be read."""
        return grpc.ssl_channel_credentials(_content(self.ca), _content(self.key), _content(self.certificate))

    def channel_options(self) -> dict[str, Any]:
        """The channel arguments that go with them."""
        if self.server_name is None:
            return {}
        return {"grpc.ssl_target_name_override": self.server_name, "grpc.default_authority": self.server_name}


@dataclass(frozen=True)
class ChannelSecurity:
    """What makes a channel and its calls those of a certain caller, to a certain server."""

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
        tls: Tls | None,
        credentials: grpc.ChannelCredentials | None,
        *,
        insecure_token: bool,
    ) -> Self:
        """The security of a client. Raises InvalidArgument for what contradicts itself, and for a token that would travel in
        clear text without being allowed to, OSError for a file that can't be read."""
        if tls is not None and credentials is not None:
            raise invalid_argument("tls", "and credentials exclude each other: give one")
        if tls is not None:
            return cls(tls.channel_credentials(), tls.channel_options(), token)
        if token is None or credentials is not None or insecure_token:
            return cls(credentials, {}, token)
        if not stays_here(target):
            message = f"would travel to {target} in clear text; use TLS, or insecure_token where something else encrypts"
            raise invalid_argument("token", message)
        return cls(None, NO_PROXY, token)

    def metadata(self) -> Metadata | None:
        """The metadata of the next call. Raises InvalidArgument for a token that can't be one."""
        if self.token is None:
            return None
        token = self.token if isinstance(self.token, str) else self.token()
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise invalid_argument("token", "must be printable ASCII without spaces; is it the whole token, and nothing else?")
        return (("authorization", f"Bearer {token}"),)


def stays_here(target: str) -> bool:
    """Whether nothing that is sent to this gRPC name leaves the machine; of many addresses, to any."""
    scheme, _, rest = target.partition(":")
    if scheme in LOCAL_SCHEMES:
        return True
    if scheme in ADDRESS_SCHEMES:
        return all(_is_loopback(address) for address in rest.split(","))
    if scheme != "dns":
        return _is_loopback(target)
    server, _, address = rest.rpartition("/")
    # Another machine's name server may say anything of localhost.
    return _is_loopback(address) and (server in ("", "//") or not address.startswith("localhost"))


def is_loopback_host(host: str) -> bool:
    """Whether a name or address, without a port, is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Any other name resolves to what the network says, and that may change.
        return False


def _content(path: str | PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _is_loopback(address: str) -> bool:
    """Of HOST:PORT, [HOST]:PORT or HOST."""
    if address.startswith("["):
        host = address[1:].partition("]")[0]
    else:
        host = address.partition(":")[0] if address.count(":") == 1 else address
    return is_loopback_host(host)
