"""Certificates, client authorities and tokens that change while a server runs, under load; and files that can't be used."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import bertscope
import pytest

from tests.support.bearers import ADMIN, READER, STRANGER, line
from tests.support.certificates import LONG_AGO, Authority, Identity
from tests.support.harness import Host, LoopThread
from tests.support.patience import granted, wait_until
from tests.support.sites import Site, ask, connect, quick, shows


@pytest.fixture(scope="module")
def tls_host(loop: LoopThread, checkpoints: dict[str, Path], site: Site) -> Iterator[Host]:
    with quick(loop, checkpoints["bert"], site.settings(mutual=False)) as host:
        yield host


@pytest.fixture(scope="module")
def mutual_host(loop: LoopThread, checkpoints: dict[str, Path], mutual_site: Site) -> Iterator[Host]:
    with quick(loop, checkpoints["bert"], mutual_site.settings(mutual=True)) as host:
        yield host


def fails_to_reload(host: Host) -> bool:
    return host.metric("bertscope_reload_failing", file="tls_certificate") == 1


def test_client_authorities_change_while_the_server_runs(mutual_host: Host, mutual_site: Site) -> None:
    old, new = mutual_site.authority.issue("client.example"), Authority()
    client_of_new = mutual_site.tls(new.issue("client.example"))
    with connect(mutual_host, mutual_site.tls(old)) as kept:
        ask(kept)
        try:
            own = mutual_site.renew(clients=mutual_site.authority.pem + new.pem)
            wait_until(lambda: shows(mutual_host, mutual_site, own, old), "the files are in force")
            with connect(mutual_host, client_of_new) as client:
                assert ask(client)
        finally:
            mutual_site.renew()
        assert ask(kept)


def test_certificates_and_tokens_rotate_under_load_without_a_failed_call(tls_host: Host, site: Site) -> None:
    current, over = [READER], threading.Event()
    answered = [0, 0, 0]

    def keep(number: int) -> None:
        """One connection for all calls."""
        with bertscope.Client(f"localhost:{tls_host.ports.grpc}", tls=site.tls(), token=lambda: current[0]) as client:
            while not over.is_set():
                answered[number] += bool(ask(client))

    def renew(number: int) -> None:
        """A handshake for each call."""
        while not over.is_set():
            with connect(tls_host, site.tls(), current[0]) as client:
                answered[number] += bool(ask(client))

    def grown(before: list[int]) -> bool:
        """Whether each caller has had an answer to a question that it asked since."""
        return all(now > then + 1 for now, then in zip(answered, before, strict=True))

    with ThreadPoolExecutor(3) as pool:
        callers = [pool.submit(work, number) for number, work in enumerate((keep, renew, renew))]
        try:
            for token in (ADMIN, STRANGER, READER):
                site.tokens.write_text(line("alice", "read", current[0]) + line("alice", "read", token))
                certificate = site.renew()
                wait_until(partial(shows, tls_host, site, certificate), "the new certificate is shown")
                wait_until(partial(knows, tls_host, site, token), "the new token is known")
                current[0] = token
                wait_until(partial(grown, list(answered)), "all callers have the new ones")
                site.tokens.write_text(line("alice", "read", token))
        finally:
            over.set()
        for caller in callers:
            caller.result(granted(30))
    assert min(answered) >= 6


def knows(host: Host, site: Site, token: str) -> bool:
    with connect(host, site.tls(), token) as client:
        try:
            return bool(client.list_models())
        except bertscope.Unauthenticated:
            return False


def test_files_that_cannot_be_used_leave_the_old_ones_in_force(
    tls_host: Host, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    good = site.renew()
    wait_until(partial(shows, tls_host, site, good), "it is in force")
    other = site.authority.issue("localhost")
    broken = [
        Identity(b"no key", good.certificate),
        Identity(good.key, b"no certificate"),
        Identity(other.key, good.certificate),
        site.authority.issue("localhost", expires=LONG_AGO + timedelta(days=1)),
    ]
    for identity in broken:
        caplog.clear()
        site.renew(identity)
        wait_until(lambda: "tls_certificate can't be used" in caplog.text, "it is judged")
        assert fails_to_reload(tls_host)
        assert shows(tls_host, site, good)
        assert "PRIVATE KEY" not in caplog.text
    assert "expired on 2001-01-02" in caplog.text
    site.renew(good)
    wait_until(lambda: not fails_to_reload(tls_host), "the old one is back")
