"""Files that are read again when they change, and what a certificate must be to be used."""

import asyncio
import base64
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bertscope_service.errors import FailedPrecondition
from bertscope_service.observability.metrics import Metrics
from bertscope_service.security import watched_files as watched_module
from bertscope_service.security.tls import parse_certificates
from bertscope_service.security.watched_files import Watched, watch
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.support.certificates import LONG_AGO, Authority
from tests.support.patience import granted


def joined(contents: Sequence[bytes]) -> bytes:
    if b"bad" in contents:
        raise FailedPrecondition("one of them is bad", "BAD")
    return b" ".join(contents)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    return first, second


def failing(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("bertscope_reload_failing", {"file": "pair"})


def test_files_count_together_once_they_are_found_twice(files: tuple[Path, Path]) -> None:
    first, second = files
    watched = Watched("pair", files, joined, Metrics().reload_failing)
    assert watched.value == b"one two"
    first.write_bytes(b"three")
    watched.check()
    assert watched.value == b"one two"
    second.write_bytes(b"four")
    watched.check()
    assert watched.value == b"one two"
    watched.check()
    assert watched.value == b"three four"


def test_what_cannot_be_used_is_told_once_and_leaves_the_old(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    watched = Watched("pair", files, joined, metrics.reload_failing)
    files[0].write_bytes(b"bad")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            watched.check()
    assert (watched.value, failing(metrics)) == (b"one two", 1)
    assert caplog.text.count("one of them is bad") == 1
    files[0].unlink()
    for _ in range(5):
        watched.check()
    assert (watched.value, failing(metrics)) == (b"one two", 1)
    assert caplog.text.count("stays in force") == 2
    files[0].write_bytes(b"good")
    for _ in range(2):
        watched.check()
    assert (watched.value, failing(metrics)) == (b"good two", 0)


def test_a_failure_that_nobody_foresaw_leaves_the_old_and_ends_no_watch(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    watched = Watched(
        "pair", files, lambda contents: int(contents[0] == b"one") or contents[0].index(b"?"), metrics.reload_failing
    )
    files[0].write_bytes(b"odd")
    for _ in range(3):
        watched.check()
    assert (watched.value, failing(metrics)) == (1, 1)
    assert "what it was stays in force" in caplog.text
    files[0].write_bytes(b"a?")
    for _ in range(2):
        watched.check()
    assert watched.value == 1


def test_a_certificate_whose_key_cannot_be_read_is_refused() -> None:
    issued = Authority().issue("localhost")
    der = bytearray(x509.load_pem_x509_certificate(issued.certificate).public_bytes(Encoding.DER))
    curve = bytes.fromhex("06082a8648ce3d030107")  # the name of P-256, of which there is none any more
    at = der.index(curve)
    der[at + len(curve) - 1] = 0x7F
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(bytes(der)) + b"-----END CERTIFICATE-----\n"
    with pytest.raises(FailedPrecondition, match="has a key that can't be read"):
        parse_certificates([pem, issued.key])


def test_certificates_say_when_they_expire() -> None:
    soon, late = (datetime.now(UTC).replace(microsecond=0) + timedelta(days=days) for days in (3, 5))
    authority = Authority()
    issued = authority.issue("localhost", expires=soon)
    parsed = parse_certificates([issued.certificate, issued.key])
    assert (parsed.expires, parsed.client_ca_expires) == (soon.timestamp(), None)
    chain = issued.certificate + authority.issue("other", expires=late).certificate
    with_clients = parse_certificates([chain, issued.key, authority.pem])
    assert with_clients.expires == soon.timestamp()
    assert with_clients.client_ca_expires is not None


def test_keys_and_certificates_that_no_handshake_could_use_are_refused() -> None:
    authority = Authority()
    good, other = authority.issue("localhost"), authority.issue("localhost")
    locked = load_pem_private_key(good.key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    foreign = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    expired = authority.issue("localhost", expires=LONG_AGO + timedelta(days=1))
    for told, contents in {
        "passphrase": [good.certificate, locked],
        "RSA and ECDSA": [good.certificate, foreign],
        "not the one of the certificate": [good.certificate, other.key],
        "not a private key": [good.certificate, good.certificate],
        "the certificate: no certificate": [good.key, good.key],
        "clients' authorities": [good.certificate, good.key, b""],
        "expired on 2001-01-02": [expired.certificate, expired.key],
    }.items():
        with pytest.raises(FailedPrecondition, match=told) as caught:
            parse_certificates(contents)
        assert caught.value.reason == "CERTIFICATE_UNUSABLE"


@pytest.mark.asyncio
async def test_a_look_for_which_there_is_no_thread_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, twice = list[int](), asyncio.Event()

    class Failing:
        def check(self) -> None:
            looked.append(len(looked))
            if len(looked) == 1:
                raise RuntimeError("can't start new thread")
            loop.call_soon_threadsafe(twice.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(watched_module, "CHECK_SECONDS", 0.0)
    files: Any = [Failing()]
    watching = asyncio.create_task(watch(files))
    await asyncio.wait_for(twice.wait(), granted(20))
    watching.cancel()
