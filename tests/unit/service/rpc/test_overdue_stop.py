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


def test_a_stop_that_hangs_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    Stuck.noticed = threading.Event()
    monkeypatch.setattr(server, "Server", Stuck)
    monkeypatch.setattr(server, "STOP_SECONDS", 0.0)
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


def test_a_second_signal_hurries_the_stop_which_is_overdue_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the seconds that calls were given to come in and to end."""
    seconds, hurried = list[float](), list[bool]()

    class Timer(threading.Timer):
        def __init__(self, interval: float, function: Any) -> None:
            seconds.append(interval)
            super().__init__(interval, function)

    class Signalled(Stuck):
        async def load_models(self) -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(os.getpid(), number)
            await asyncio.Event().wait()

        async def stop(self, *_: Any) -> None:
            hurried.append(self.hurried)

    monkeypatch.setattr(server, "Server", Signalled)
    monkeypatch.setattr(threading, "Timer", Timer)
    asyncio.run(server.serve(Settings(grace_seconds=600, drain_seconds=7), time.monotonic()))
    assert seconds == [607 + server.STOP_SECONDS, server.STOP_SECONDS]
    assert hurried == [True]
