"""An engine with one device, without a model: what it runs, what it measured, and whom it told of its device."""

import asyncio
from collections.abc import Sequence
from typing import Any

import torch
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.engine.rows import Row
from bertscope_service.observability.metrics import Metrics

from tests.support.fakes import SECONDS, Blocker, FakeEncoder, SumObserver, sequence

CPU = torch.device("cpu")


class Rig:
    """An engine with one device. `limits` are those of engine.limits.Limits."""

    def __init__(self, **limits: Any) -> None:
        self.metrics = Metrics()
        self.encoder: Any = FakeEncoder()
        self.broken: list[tuple[torch.device, float]] = []
        """Whenever it told that its device is broken: which one, and how many rows waited then."""
        self.stalled: list[bool] = []
        """What it told of a device that hangs, and of one that goes on."""
        given = Limits(**{"batch_tokens": 100, "queue_tokens": 200, **limits})
        self.engine = Engine(lambda _: given, self.metrics, self._hear, lambda _, stalled: self.stalled.append(stalled))

    def _hear(self, device: torch.device) -> None:
        self.broken.append((device, self.waiting))

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    @property
    def waiting(self) -> float:
        return self.value("bertscope_queue_rows", device="cpu")

    def row(self, length: int, observer: Any = None, token: int = 1) -> Row:
        """A row of so many tokens, each of the id `token`: its result is the sum of its ids."""
        return Row(self.encoder, sequence(length, token), observer or SumObserver())

    def run(
        self, lengths: Sequence[int], observer: Any = None, *, client: str = "client", token: int = 1, **options: Any
    ) -> asyncio.Task[list[Any]]:
        """A job of rows of so many tokens. `options` are those of Engine.run."""
        rows = [self.row(length, observer, token) for length in lengths]
        return asyncio.create_task(self.engine.run(rows, client=client, **options))

    async def block(self, *lengths: int) -> tuple[Blocker, asyncio.Task[list[Any]]]:
        """Fills the worker with a batch that ends when the blocker is released, and the queue with rows of the same job."""
        blocker = Blocker()
        rows = [self.row(1, SumObserver(blocker, group="blocker")), *map(self.row, lengths)]
        task = asyncio.create_task(self.engine.run(rows, client="other", admitted=True))
        await asyncio.sleep(0)  # the task submits
        assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
        return blocker, task


async def begun(*tasks: asyncio.Task[list[Any]]) -> None:
    """Lets tasks begin: they submit at once and then wait."""
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


async def ends(*tasks: asyncio.Task[list[Any]]) -> list[Any]:
    """Returns what tasks come to; none may hang."""
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)
