"""Fixtures of the folders whose tests ask a server: a fake one on a free port, how it fails, and commands that ask it."""

import io
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope_workbench.command.app import run
from bertscope_workbench.command.views import progress

from tests.support.fake_server import FakeServer, refuse, start
from tests.support.patience import granted

Ran = tuple[int, str, str]


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
def run_at(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a command against the server at a target, in a folder of its own: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run_command(target: str, *arguments: object, stdin: bytes | None = None) -> Ran:
        monkeypatch.setenv("BERTSCOPE_TARGET", target)
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(list(map(str, arguments)))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def command(server: FakeServer, run_at: Callable[..., Ran]) -> Callable[..., Ran]:
    """Runs a command against the fake server."""
    return partial(run_at, server.target)


@pytest.fixture
def abort() -> Callable[..., Callable[[grpc.ServicerContext], None]]:
    """Makes a `fail` that ends a call with a google.rpc.Status and a request id."""

    def make(code: int, message: str, *details: Any, reason: str = "SOME_REASON") -> Callable[[Any], None]:
        return lambda context: refuse(context, code, message, reason, *details, model="models/fake")

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
