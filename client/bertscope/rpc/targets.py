"""Parses the server's address, and explains why a server can't be reached."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bertscope.errors import invalid_argument

DEFAULT_TARGET = "127.0.0.1:50051"
VARIABLE = "BERTSCOPE_TARGET"
DEFAULT_PORT = 50051
METRICS_PORT = 9464

SCHEMES = ("dns", "ipv4", "ipv6", "unix", "unix-abstract", "vsock", "xds")
"""Schemes of gRPC's names; the rest of such a name is checked by gRPC."""
ENCRYPTED_SCHEMES = ("https", "grpcs")


@dataclass(frozen=True)
class Target:
    """A server's address, and whether calls are encrypted."""

    name: str
    """The name for gRPC: "host:port", or any other gRPC name."""
    encrypted: bool
    """True if the client uses TLS."""
    shared: bool = False
    """True if several servers share the calls: each call goes to the next."""

    @classmethod
    def of(cls, target: str | None, *, encrypted: bool) -> Target:
        """Returns the target of the argument, else of the environment's BERTSCOPE_TARGET, else 127.0.0.1:50051.

        Several, with commas between, share the calls; their names are looked up now. Raises InvalidArgument, with the right
        form, for an invalid name.
        """
        if target is None:
            variable = os.environ.get(VARIABLE, "")
            return cls._of(variable, f"({VARIABLE}) ", encrypted=encrypted) if variable else cls(DEFAULT_TARGET, encrypted)
        if not isinstance(target, str):
            raise invalid_argument("target", f'must be a string such as "{DEFAULT_TARGET}", not {type(target).__name__}')
        return cls._of(target, "", encrypted=encrypted)

    @classmethod
    def _of(cls, name: str, source: str, *, encrypted: bool) -> Target:
        if "," not in name or _scheme(name):
            return cls(_checked(name, source, encrypted=encrypted), encrypted)
        names = [_checked(each.strip(), source, encrypted=encrypted) for each in name.split(",")]
        return cls(_addresses(names, source), encrypted, shared=True)

    def advice(self, details: str) -> str:
        """Explains gRPC's message about a server that can't be reached, and says what to do; empty if unknown."""
        for sign, meaning in SIGNS.items():
            if re.search(sign, details):
                return meaning.format(name=self.name) if isinstance(meaning, str) else meaning(self)
        return ""

    @property
    def has_port(self) -> bool:
        """True if the name has a port; without one, gRPC uses 443."""
        return _scheme(self.name) not in ("", "dns") or bool(re.search(r":\d+$", self.name))


def _refused(target: Target) -> str:
    if not target.has_port:
        return f"no server listens at {target.name}, on port 443, which gRPC takes where none is said; write HOST:PORT"
    return f"no server listens at {target.name}; start one with `bertscope serve`, or name another target"


def _closed(target: Target) -> str:
    said = f"the server at {target.name} closed the connection before it said a word"
    if target.encrypted:
        return f"{said}; it may ask for the caller's certificate: tls=bertscope.Tls(certificate=..., key=...)"
    return f"{said}; it may speak TLS: call it with tls=bertscope.Tls(ca=...)"


SIGNS: Mapping[str, str | Callable[[Target], str]] = {
    r"WRONG_VERSION_NUMBER": "what listens at {name} does not speak TLS; connect without TLS, or call a port that does",
    r"CERTIFICATE_VERIFY_FAILED": (
        "the certificate of the server at {name} does not come from an authority that is trusted here, or is not valid now; "
        "name the authority's certificate: tls=bertscope.Tls(ca=...)"
    ),
    r"Hostname Verification": (
        "the server at {name} has a certificate for another name; call it by that name, or say it: "
        "tls=bertscope.Tls(server_name=...)"
    ),
    r"Failed parsing HTTP/2|http1\.x server": (
        "what listens at {name} does not speak gRPC; it may be a web server, or a bertscope server's port of metrics "
        f"({METRICS_PORT} unless set): call its port of gRPC ({DEFAULT_PORT} unless set)"
    ),
    r"Connection refused|No such file or directory": _refused,
    r"(?s)failed to connect.*(Socket closed|Connection reset|CERTIFICATE_REQUIRED)": _closed,
    r"backend unhealthy": (
        "no server at {name} serves now: those that are reached still load their models, or stop; "
        "`bertscope health --target HOST:PORT` says more of one"
    ),
    r"errors resolving|Domain name not found": (
        "there is no address for {name}; write HOST:PORT with a host that is known here"
    ),
}
"""Patterns in gRPC's messages, which are not a stable interface: if they change, gRPC's message alone is shown."""


def _scheme(name: str) -> str:
    scheme, colon, _ = name.partition(":")
    return scheme if colon and scheme in SCHEMES else ""


def _checked(name: str, source: str, *, encrypted: bool) -> str:
    def refused(why: str) -> Exception:
        return invalid_argument("target", f"{source}{why}")

    if not name.strip():
        raise refused(f'is empty; write "HOST:PORT", {DEFAULT_TARGET} for one')
    if any(character.isspace() or not character.isprintable() for character in name):
        raise refused(f"{name!r} has a blank in it; write HOST:PORT and nothing else")
    if _scheme(name):
        return name
    scheme, marks, rest = name.partition("://")
    if marks:
        address = rest.rstrip("/")
        also = ", and tls=bertscope.Tls()" if scheme in ENCRYPTED_SCHEMES else ""
        raise refused(f'{name!r} is a URL; write "{address}"{also}' if address else f"{name!r} names no host; write HOST:PORT")
    _check_host_and_port(name, refused, encrypted=encrypted)
    return name


def _addresses(names: Sequence[str], source: str) -> str:
    """Returns the gRPC name of several servers: it takes addresses, all of one kind."""
    found = {}
    for name in names:
        host, _, port = name.rpartition(":")
        if _scheme(name) or not host:
            raise invalid_argument("target", f"{source}{name!r} can't be one of several; write HOST:PORT for each")
        try:
            found[name] = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except OSError:
            raise invalid_argument(
                "target", f"{source}there is no address for {name}; write hosts that are known here"
            ) from None
    for family, scheme, form in ((socket.AF_INET, "ipv4", "{}:{}"), (socket.AF_INET6, "ipv6", "[{}]:{}")):
        chosen = [next((entry[4] for entry in entries if entry[0] == family), None) for entries in found.values()]
        addresses = [form.format(*address) for address in chosen if address is not None]
        if len(addresses) == len(chosen):
            return f"{scheme}:{','.join(addresses)}"
    raise invalid_argument("target", f"{source}{', '.join(names)} have addresses of two kinds, IPv4 and IPv6; write one kind")


def _check_host_and_port(name: str, refused: Callable[[str], Exception], *, encrypted: bool) -> None:
    host, colon, port = name.rpartition(":")
    if _is_ipv6(name):
        raise refused(f'{name!r} has no port that can be told from the address; write "[{name}]:{DEFAULT_PORT}"')
    if not colon or name.endswith("]"):
        if encrypted:
            return  # gRPC takes 443 then, which is the port of TLS.
        raise refused(f'{name!r} has no port; write "{name}:{DEFAULT_PORT}"')
    if not host or (":" in host and not _is_ipv6(host.strip("[]"))):
        raise refused(f'{name!r} is not a server\'s name; write "HOST:PORT", {DEFAULT_TARGET} for one')
    if not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
        raise refused(f"{name!r} has no port that can be called: {port!r} is not a number from 1 to 65535")


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
