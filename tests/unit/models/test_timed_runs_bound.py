"""What a benchmark says of its runs' size, so that a large batch is not taken for a device that hangs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from bertscope_service.models import timed_runs as benchmark_runs
from bertscope_service.models.timed_runs import Trial

from tests.support.fakes import FakeEncoder, sequence

pytestmark = pytest.mark.asyncio


class Lender:
    """Stands for a lease: runs what it is given, and notes how large that was said to be."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.said: list[tuple[Any, int]] = []

    async def call(self, function: Callable[[], Any], *, encoder: Any = None, tokens: int = 0) -> Any:
        self.said.append((encoder, tokens))
        return function()


async def test_runs_say_how_many_tokens_they_have_with_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_runs, "run", lambda encoder, batch: None)
    monkeypatch.setattr(benchmark_runs, "working_bytes", lambda device, work: 5)
    encoder: Any = FakeEncoder()
    lender: Any = Lender()
    trial = Trial(encoder, lender)
    small, large = [sequence(3)], [sequence(10), sequence(4)]
    assert len(await trial.times([small, large])) == 2
    assert await trial.working_bytes(large) == 5
    assert lender.said == [(encoder, 20), (encoder, 40)]
