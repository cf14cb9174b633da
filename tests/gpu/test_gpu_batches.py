"""When a batch is formed while the one before still runs, and how many calls may wait for a GPU that has run nothing yet."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
import torch
from bertscope_service.encoders.state import State
from bertscope_service.engine import device_thread
from bertscope_service.engine.rate_estimate import KNOWN_BATCHES
from bertscope_service.engine.rows import Priority

from tests.support.fakes import SECONDS, FakeEncoder, SumObserver
from tests.support.on_gpu import DEVICE
from tests.support.rig import Rig, begun, ends

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("pretended")]

LONG = 10 * SECONDS
LEAD = 0.001


class Gpu(Rig):
    """An engine with a GPU, whose batches end when `over` is set, and are expected to take long if `slow` was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        super().__init__(**{"queue_seconds": 1e9, **limits})
        self.encoder = FakeEncoder(device=DEVICE)
        self.over, self.looks = threading.Event(), 0
        self.batches: list[tuple[int, ...]] = []
        self.error: Exception | None = None
        event = SimpleNamespace(record=lambda stream: None, query=self._query, synchronize=self._wait)
        monkeypatch.setattr(torch.cuda, "Event", lambda **_: event)
        monkeypatch.setattr(device_thread, "LONGEST", LONG)
        self.worker = self.engine._worker(DEVICE)
        self.worker._thread._lead = LEAD

    def _query(self) -> bool:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.over.is_set()

    def _wait(self) -> None:
        assert self.over.wait(SECONDS)
        if self.error is not None:
            raise self.error

    def slow(self) -> None:
        for _ in range(KNOWN_BATCHES):
            self.worker.rates.note(self.encoder, Priority.INTERACTIVE, self.row(1).keys[1], 1 / LONG)

    def ask(self, length: int, group: object = None) -> asyncio.Task[list[Any]]:
        return self.run([length], SumObserver(self._seen, group), client=str(length))

    def _seen(self, state: State) -> None:
        self.batches.append(state.lengths)

    async def runs(self) -> asyncio.Task[list[Any]]:
        """Begins a batch of three tokens."""
        task = self.ask(3)
        await until(lambda: self.batches)
        return task


@pytest_asyncio.fixture
async def gpu(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gpu]:
    gpu = Gpu(monkeypatch)
    yield gpu
    gpu.over.set()
    await gpu.engine.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.001)


async def test_rows_that_come_while_a_batch_runs_share_the_next_one(gpu: Gpu) -> None:
    gpu.slow()
    tasks = [await gpu.runs(), gpu.ask(4)]
    await begun(*tasks)
    seen = gpu.looks
    await until(lambda: gpu.looks > seen + 1)  # the thread has seen the row, and waits on
    tasks.append(gpu.ask(5))
    await begun(*tasks)
    gpu.over.set()
    assert await ends(*tasks) == [[3.0], [4.0], [5.0]]
    assert [sorted(batch) for batch in gpu.batches] == [[3], [4, 5]]
    assert gpu.worker._thread._lead == 2 * LEAD  # the device had to wait for it


@pytest.mark.parametrize("known", [False, True])
async def test_while_a_batch_of_unknown_time_or_a_short_one_runs_the_next_is_launched_at_once(gpu: Gpu, known: bool) -> None:
    if known:
        gpu.slow()
        gpu.worker._thread._lead = LONG
    tasks = [gpu.ask(3), gpu.ask(4, group="of another kind")]
    await until(lambda: gpu.batches == [(3,), (4,)])
    await begun(*tasks)
    gpu.over.set()
    assert await ends(*tasks) == [[3.0], [4.0]]


@pytest.mark.parametrize("by", ["close", "lease", "error"])
async def test_nobody_waits_longer_than_for_the_end_of_the_batch(gpu: Gpu, by: str) -> None:
    """However long it was expected to take, and also if it ends by an error of the device."""
    gpu.slow()
    running = await gpu.runs()
    await until(lambda: gpu.looks > 1)

    async def borrow() -> None:
        async with gpu.engine.lease(DEVICE, refuse=False) as lease:
            assert await lease.call(lambda: "lent") == "lent"

    other = asyncio.create_task(gpu.engine.close() if by == "close" else borrow())
    await begun(running)
    if by == "error":
        gpu.error = torch.AcceleratorError("CUDA error: unspecified launch failure")
    gpu.over.set()
    (found,) = await ends(running)
    assert found is gpu.error or found == [3.0]
    await asyncio.wait_for(other, SECONDS)


async def test_a_gpu_that_has_run_nothing_lets_sixteen_large_calls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch, batch_tokens=16_384, queue_tokens=262_144, queue_seconds=10.0, most_queue_tokens=1 << 24)
    gpu.over.set()
    async with gpu.engine.lease(DEVICE, refuse=False):
        calls = [gpu.run([128] * 128) for _ in range(16)]
        await begun(*calls)
        assert gpu.value("bertscope_queue_tokens", device=str(DEVICE)) == 16 * 16_384
    assert await ends(*calls) == [[128.0] * 128] * 16
    await gpu.engine.close()
