"""TLS and mutual TLS on a server: which handshakes fail, and who a certificate is."""

import logging
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import bertscope
import grpc
import pytest
from bertscope_service.errors import FailedPrecondition
from bertscope_service.rpc import connections
from bertscope_service.rpc.server import Server
from bertscope_service.settings import Settings

from tests.support.bearers import READER, STRANGER
from tests.support.certificates import LONG_AGO, Authority, Identity
from tests.support.harness import Host, LoopThread, code_of, launched
from tests.support.patience import granted
from tests.support.sites import NEW_CONNECTION, TEXT, Site, ask, connect


@pytest.fixture(scope="module")
def tls_host(loop: LoopThread, checkpoints: dict[str, Path], site: Site) -> Iterator[Host]:
    with launched(loop, model=[f"bert={checkpoints['bert']}"], **site.settings(mutual=False)) as host:
        yield host


@pytest.fixture(scope="module")
def mutual_host(loop: LoopThread, checkpoints: dict[str, Path], mutual_site: Site) -> Iterator[Host]:
    with launched(loop, model=[f"bert={checkpoints['bert']}"], **mutual_site.settings(mutual=True)) as host:
        yield host


def test_tls_answers_who_trusts_its_authority(tls_host: Host, site: Site) -> None:
    for name in ("localhost", "127.0.0.1"):
        with connect(tls_host, site.tls(), name=name) as client:
            assert ask(client)
            assert len(list(client.extract_attention(["The cat sat."]))) == 1
            assert client.health().serving

    async def answers() -> int:
        async with bertscope.AsyncClient(f"localhost:{tls_host.ports.grpc}", tls=site.tls(), token=READER) as client:
            return len(await client.fill_mask(TEXT))

    assert tls_host.loop.run(answers()) == 1


def test_a_server_of_another_name_or_authority_is_refused(tls_host: Host, site: Site, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().pem)
    wrong_name = bertscope.Tls(site.ca, server_name="bert.example")
    for tls in (site.tls(ca=other), bertscope.Tls(), wrong_name, None):
        with connect(tls_host, tls) as client, pytest.raises(bertscope.Unavailable):
            client.unload_model("models/none", timeout=5)  # which is not tried again
    with connect(tls_host, bertscope.Tls(site.ca, server_name="localhost"), name="127.0.0.1") as client:
        assert ask(client)


def test_who_speaks_no_tls_harms_nobody(tls_host: Host, site: Site) -> None:
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(5000)):
        with socket.create_connection(("127.0.0.1", tls_host.ports.grpc), timeout=granted(10)) as plain:
            plain.sendall(words)
            assert closes(plain)
    with connect(tls_host, site.tls()) as client:
        assert ask(client)


def test_who_says_nothing_is_disconnected(
    loop: LoopThread, checkpoints: dict[str, Path], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.2)
    with (
        launched(loop, load=False, **site.settings(mutual=False)) as host,
        socket.create_connection(("127.0.0.1", host.ports.grpc), timeout=granted(10)) as silent,
    ):
        assert closes(silent)


def closes(connection: socket.socket) -> bool:
    """Whether the other side ends a connection soon, whatever it says before."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_mutual_tls_takes_only_certificates_of_its_authority(
    mutual_host: Host, mutual_site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    authority, stranger = mutual_site.authority, Authority()
    expired = authority.issue("client.example", expires=LONG_AGO + timedelta(days=1))
    with caplog.at_level(logging.DEBUG, "bertscope"):
        for identity in (None, stranger.issue("client.example"), expired):
            with connect(mutual_host, mutual_site.tls(identity)) as client, pytest.raises(bertscope.Unavailable):
                client.unload_model("models/none", timeout=5)  # which is not tried again
    assert not [record for record in caplog.records if record.name == "bertscope.requests"]
    with connect(mutual_host, mutual_site.tls(authority.issue("client.example"))) as client:
        assert ask(client)


def test_a_certificate_may_stand_for_a_name_and_role(mutual_host: Host, mutual_site: Site) -> None:
    issue = mutual_site.authority.issue
    for identity in (issue("bob.example"), issue("other.example", common_name="bob.example")):
        with connect(mutual_host, mutual_site.tls(identity), token=None) as client:
            assert ask(client)
            assert len(list(client.extract_attention(["The cat sat."]))) == 1
            with pytest.raises(bertscope.NotFound):
                client.unload_model("models/none")
    with connect(mutual_host, mutual_site.tls(issue("carol.example")), token=None) as client:
        with pytest.raises(bertscope.Unauthenticated) as caught:
            ask(client)
        assert caught.value.reason == "TOKEN_MISSING"
        assert caught.value.request_id
        assert client.health().serving
    assert unknown_method(mutual_host, mutual_site, issue("carol.example")) is grpc.StatusCode.UNAUTHENTICATED
    assert unknown_method(mutual_host, mutual_site, issue("bob.example")) is grpc.StatusCode.UNIMPLEMENTED
    with connect(mutual_host, mutual_site.tls(issue("bob.example")), token=STRANGER) as client:
        with pytest.raises(bertscope.Unauthenticated) as caught:
            ask(client)
        assert caught.value.reason == "TOKEN_UNKNOWN"
    with connect(mutual_host, mutual_site.tls(issue("bob.example")), token=READER) as client:
        assert ask(client)
        with pytest.raises(bertscope.PermissionDenied):
            client.unload_model("models/none")


def unknown_method(host: Host, site: Site, identity: Identity) -> grpc.StatusCode:
    credentials = site.tls(identity).channel_credentials()
    with grpc.secure_channel(f"localhost:{host.ports.grpc}", credentials, list(NEW_CONNECTION.items())) as channel:
        method: Any = channel.unary_unary("/a/b")
        with pytest.raises(grpc.RpcError) as caught:
            method(b"", timeout=granted(20))
    return code_of(caught.value)


def test_a_server_does_not_begin_with_files_that_cannot_be_used(loop: LoopThread, tmp_path: Path) -> None:
    expired = Authority().issue("localhost", expires=LONG_AGO + timedelta(days=1)).write(tmp_path / "expired")
    tokens = tmp_path / "tokens"
    tokens.write_text("alice read secret-instead-of-a-digest\n")
    for message, files in (
        ("--tls-certificate: the certificate expired", {"tls_certificate": "tls.crt", "tls_key": "tls.key"}),
        ("--tls-certificate: .* can't be read: No such file", {"tls_certificate": "none.crt", "tls_key": "tls.key"}),
        ("--tokens-file: line 1: ", {"tokens_file": tokens}),
    ):
        settings = Settings(port=0, metrics_port=0, **{name: expired / file for name, file in files.items()})
        with pytest.raises(FailedPrecondition, match=message) as caught:
            loop.run(make(settings))
        assert "secret" not in str(caught.value)


async def make(settings: Settings) -> Server:
    return Server(settings)
