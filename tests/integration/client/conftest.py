"""Fixtures: a fake server on a free port, and statuses for it to fail with."""

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from bertscope_workbench.command.views import progress
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from tests.support.fake_server import FakeServer, start
from tests.support.patience import granted


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as they need to be; several test processes would be told the width of one terminal. A slow machine
    prints no lines of progress, either."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(progress, "LINE_SECONDS", 3600.0)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    host = start(fake)
    yield fake
    host.stop(grace=None).wait()


@pytest.fixture
def abort() -> Callable[..., Callable[[grpc.ServicerContext], None]]:
    """Makes a `fail` that ends a call with a google.rpc.Status and a request id."""

    def make(code: int, message: str, *details: Any, reason: str = "SOME_REASON") -> Callable[[Any], None]:
        info = error_details_pb2.ErrorInfo(reason=reason, domain="bertscope", metadata={"model": "models/fake"})
        status = status_pb2.Status(code=code, message=message)
        for detail in (info, *details):
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)

        def fail(context: grpc.ServicerContext) -> None:
            rich = rpc_status.to_status(status)
            context.set_trailing_metadata((*rich.trailing_metadata, ("x-request-id", "request-1")))
            context.abort(rich.code, rich.details)

        return fail

    return make


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """SIGINT interrupts, as on a terminal; a shell's background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def wait_for() -> Iterator[threading.Event]:
    """An event that the server may wait for; set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def endless(server: FakeServer, wait_for: threading.Event) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A stream that stops before its second text, until the call or the test ends."""

    def stream(messages: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.takewhile(lambda message: not message.header.input_index, messages)
        wait_for.wait(granted(60))

    return stream
