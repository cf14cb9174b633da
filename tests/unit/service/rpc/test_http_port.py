"""The HTTP port says what gRPC's health says, serves metrics, and has nothing else."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest
from bertscope_service.rpc import http_port
from bertscope_service.rpc.http_port import MAX_CONNECTIONS, MAX_HEAD_BYTES, serve_http
from prometheus_client import CollectorRegistry, Gauge

from tests.support.patience import granted, wait_until

STATE = {"serving": False}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("some_models", "models", registry=registry).set(3)
    port, end = serve_http(registry, lambda: STATE["serving"], ("127.0.0.1", 0))
    with end:
        yield port


def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=granted(10)) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz?verbose"])
def test_health_follows_the_servers(port: int, path: str) -> None:
    STATE["serving"] = False
    assert fetch(port, path) == (503, "NOT_SERVING\n")
    STATE["serving"] = True
    assert fetch(port, path) == (200, "SERVING\n")


def test_metrics_are_served_whatever_health_says(port: int) -> None:
    STATE["serving"] = False
    status, text = fetch(port, "/metrics")
    assert (status, "some_models 3.0" in text) == (200, True)


@pytest.mark.parametrize("path", ["/", "/metric", "/metrics/", "/health", "/readyz/x", "/favicon.ico"])
def test_other_paths_are_not_found_and_say_which_there_are(port: int, path: str) -> None:
    STATE["serving"] = True
    status, text = fetch(port, path)
    assert status == 404
    assert "/readyz" in text


def test_a_burst_of_connections_takes_neither_threads_nor_descriptors_and_no_answer_of_others(port: int) -> None:
    """They send nothing, half a request, or more than a head may have; a scrape among them is answered."""
    process = psutil.Process()
    fetch(port, "/healthz")
    threads, descriptors = process.num_threads(), process.num_fds()
    parts = (b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * (4 * MAX_HEAD_BYTES))
    with ExitStack() as held:
        for number in range(6 * MAX_CONNECTIONS):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=granted(10)))
            with suppress(ConnectionError):
                connection.sendall(parts[number % len(parts)])
            if number % 50 == 0:
                assert fetch(port, "/metrics")[0] == 200
        ours = 6 * MAX_CONNECTIONS
        assert process.num_fds() - descriptors - ours <= MAX_CONNECTIONS + 2
        assert process.num_threads() == threads
        assert fetch(port, "/healthz")[1]
    wait_until(lambda: process.num_fds() <= descriptors, "the connections are closed")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x", b"\x16\x03\x01\r\n\r\n"])
def test_a_request_that_does_not_come_is_ended(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(http_port, "REQUEST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=granted(30)) as connection:
        connection.sendall(sent)
        assert connection.recv(1000) == b""  # would wait for ever


def test_the_port_ends_with_connections_that_wait() -> None:
    port, end = serve_http(CollectorRegistry(), lambda: True, ("127.0.0.1", 0))
    with socket.create_connection(("127.0.0.1", port), timeout=granted(10)) as connection:
        connection.sendall(b"GET /")
        end.close()
        with suppress(ConnectionResetError):
            assert connection.recv(1000) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=granted(10))
