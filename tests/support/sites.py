"""A server with TLS: its files, which change all at once, and what its clients need."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bertscope
import pytest
from bertscope_service.security import watched_files as watched
from cryptography import x509

from tests.support.bearers import READER, line
from tests.support.certificates import Authority, Identity
from tests.support.harness import Host, LoopThread, launched
from tests.support.patience import granted

TEXT = "Paris is the capital of [MASK]."
NEW_CONNECTION = {"grpc.use_local_subchannel_pool": 1}


class Site:
    """The files of a server, and what its clients need. All of `live` changes at once, as a Kubernetes secret does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.pem)
        self.live = folder / "live"
        self.tokens = folder / "tokens"
        self._versions = 0
        self.renew()

    def renew(self, identity: Identity | None = None, clients: bytes | None = None) -> Identity:
        """Puts a certificate (a fresh one of the same name unless given), and authorities of clients, in force."""
        identity = identity or self.authority.issue("localhost", "127.0.0.1")
        self._versions += 1
        version = identity.write(self.folder / f"version-{self._versions}")
        (version / "clients.pem").write_bytes(clients or self.authority.pem)
        link = self.folder / "next"
        link.symlink_to(version)
        link.replace(self.live)
        return identity

    def settings(self, *, mutual: bool) -> dict[str, Path]:
        self.tokens.write_text(line("alice", "read", READER) + ("bob admin certificate:bob.example\n" if mutual else ""))
        files = {"tls_certificate": self.live / "tls.crt", "tls_key": self.live / "tls.key", "tokens_file": self.tokens}
        return files | ({"tls_client_ca": self.live / "clients.pem"} if mutual else {})

    def tls(self, identity: Identity | None = None, ca: Path | None = None) -> bertscope.Tls:
        if identity is None:
            return bertscope.Tls(ca or self.ca)
        folder = identity.write(self.folder / f"client-{id(identity)}")
        return bertscope.Tls(ca or self.ca, folder / "tls.crt", folder / "tls.key")


@contextmanager
def quick(loop: LoopThread, checkpoint: Path, settings: dict[str, Path]) -> Iterator[Host]:
    """A server that looks at its files often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched, "CHECK_SECONDS", 0.02)
        with launched(loop, model=[f"bert={checkpoint}"], **settings) as host:
            yield host


def connect(host: Host, tls: bertscope.Tls | None, token: str | None = READER, name: str = "localhost") -> bertscope.Client:
    return bertscope.Client(
        f"{name}:{host.ports.grpc}", tls=tls, token=token, options=NEW_CONNECTION.items(), timeout=granted(20)
    )


def ask(client: bertscope.Client) -> str:
    return client.fill_mask(TEXT, top_k=1)[0].masks[0].predictions[0].token


def shown(host: Host, site: Site, identity: Identity | None = None) -> int:
    """The serial number of the certificate that the server shows a new connection."""
    context = ssl.create_default_context(cafile=site.ca)
    context.set_alpn_protocols(["h2"])
    if identity is not None:
        folder = identity.write(site.folder / "shown")
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with (
        socket.create_connection(("127.0.0.1", host.ports.grpc), timeout=granted(10)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return x509.load_der_x509_certificate(found).serial_number


def shows(host: Host, site: Site, identity: Identity, client: Identity | None = None) -> bool:
    return shown(host, site, client) == x509.load_pem_x509_certificate(identity.certificate).serial_number
