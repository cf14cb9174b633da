"""What holds the event loop is measured, and named in the log; and the tests' own watch sees what computes or waits on it."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope_service.observability.loop_monitor import HELD_SECONDS

from tests.support.harness import Host, LoopThread
from tests.support.held_loop import LIMIT_SECONDS, HeldLoop, watched
from tests.support.patience import granted, wait_until

DELAY = "bertscope_event_loop_delay_seconds"


def planted_sleep(seconds: float) -> None:
    time.sleep(seconds)


async def planted_work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


async def planted_wait(seconds: float) -> None:
    planted_sleep(seconds)


@pytest.fixture
def never_held() -> Iterator[None]:
    """These tests hold the loop on purpose."""
    yield


@pytest.fixture
def own_loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


def test_what_holds_the_loop_is_measured_and_named(
    launch: Callable[..., Host], loop: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    host = launch()
    held = 4 * HELD_SECONDS
    with caplog.at_level(logging.WARNING):
        loop.loop.call_soon_threadsafe(planted_sleep, held)
        wait_until(lambda: "goes on" in caplog.text, "the loop's hold is logged")
    assert "planted_sleep (rpc/test_held_loop.py:" in caplog.text
    # The delay is noted when the loop goes on, the line is written while it is held or after.
    wait_until(lambda: host.metric(f"{DELAY}_bucket", le="+Inf") > host.metric(f"{DELAY}_bucket", le="0.5"), "it is measured")
    assert host.metric(f"{DELAY}_sum") > held / 2
    assert host.cloze.FillMask(cloze.FillMaskRequest(texts=["a [MASK]."]), timeout=granted(20)).results


@pytest.mark.parametrize("planted", [planted_work, planted_wait])
def test_tests_see_what_holds_a_loop(planted: Callable[[float], object], own_loop: LoopThread) -> None:
    def holds(watch: HeldLoop) -> bool:
        return any(planted.__name__ in stack for _, stack in watch.holds)

    with watched(own_loop.loop) as watch:
        own_loop.run(asyncio.sleep(0))
        assert watch.holds == []
        own_loop.run(planted(granted(10 * LIMIT_SECONDS)))  # type: ignore[arg-type]
        wait_until(lambda: holds(watch), "the watch has seen it")
    assert len(watch.holds) == 1


def test_short_callbacks_hold_nothing(own_loop: LoopThread) -> None:
    async def many() -> None:
        for _ in range(40):
            await planted_work(LIMIT_SECONDS / 8)
            await asyncio.sleep(0)

    with watched(own_loop.loop) as watch:
        own_loop.run(many())
    assert watch.holds == []
