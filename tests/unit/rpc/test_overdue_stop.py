"""A stop that hangs, whatever holds it up, is told in another thread."""

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest
from bertscope_service.rpc import server
from bertscope_service.rpc.listeners import Ports
from bertscope_service.settings import Settings

from tests.support.patience import granted

WAIT_SECONDS = granted(30.0)


class Stuck:
    """A server whose stop blocks the event loop until somebody notices."""

    noticed: threading.Event

    def __init__(self, settings: Settings) -> None:
        self.hurried = False

    async def start(self) -> Ports:
        return Ports(1, 2)

    async def host(self) -> None:
        pass

    async def load_models(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    async def serve_on(self) -> None:
        await asyncio.Event().wait()

    async def stop(self, *_: Any) -> None:
        assert self.noticed.wait(WAIT_SECONDS)

    def stop_now(self) -> None:
        self.hurried = True


@pytest.mark.parametrize("seconds", [0.0])
def test_a_stop_that_hangs_is_overdue(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    Stuck.noticed = threading.Event()
    monkeypatch.setattr(server, "Server", Stuck)
    monkeypatch.setattr(server, "STOP_SECONDS", seconds)
    threads = []

    def overdue() -> None:
        threads.append(threading.current_thread())
        Stuck.noticed.set()

    settings = Settings(grace_seconds=0, drain_seconds=0)
    asyncio.run(server.serve(settings, time.monotonic(), overdue))
    assert threads
    assert threads[0] is not threading.main_thread()


def test_a_stop_in_time_is_not_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    Stuck.noticed = threading.Event()
    Stuck.noticed.set()
    monkeypatch.setattr(server, "Server", Stuck)
    called: list[bool] = []
    before = threading.active_count()
    asyncio.run(server.serve(Settings(grace_seconds=600), time.monotonic(), lambda: called.append(True)))
    assert not called
    deadline = time.monotonic() + WAIT_SECONDS
    while threading.active_count() > before:  # the timer was cancelled, and its thread ends
        assert time.monotonic() < deadline
        time.sleep(0.001)
