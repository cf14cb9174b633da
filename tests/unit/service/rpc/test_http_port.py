"""The HTTP port says what gRPC's health says, serves metrics, and has nothing else."""

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from bertscope_service.rpc.http_port import serve_http
from prometheus_client import CollectorRegistry, Gauge

from tests.support.patience import granted

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
