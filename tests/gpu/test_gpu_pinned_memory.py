"""Memory of the host that a GPU copies to is counted and given back, and a wait for a GPU sleeps where processors are few."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders import device_memory
from bertscope_service.encoders.device_memory import pinned_memory, release_cache
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.engine import batch, runs

from tests.support.hungry_rows import engine_with_memory
from tests.support.on_gpu import DEVICE
from tests.support.questions_of_rows import answers, numbers, sequences

QUESTION = "hidden states"


@pytest.fixture(scope="module")
def encoder(checkpoint: Callable[[str], Path]) -> TorchEncoder:
    return load_encoder(checkpoint("bert"), "bert", device=DEVICE, precision="fp32", pack=False)


def test_results_are_counted_as_long_as_they_are_held_and_then_given_back_with_the_cache(encoder: TorchEncoder) -> None:
    release_cache()
    before = pinned_memory().used
    held = answers(encoder, QUESTION, sequences(encoder))
    size = sum(one.nbytes for one in numbers(held)) // 2  # which makes them float64
    assert pinned_memory().used >= before + size
    del held
    gc.collect()
    assert pinned_memory().unused >= size
    release_cache()
    assert pinned_memory().unused == 0


def test_more_than_is_kept_is_given_back_after_a_large_answer(encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(give_back_after_answers(encoder, monkeypatch))


async def give_back_after_answers(encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_with_memory(encoder, 1 << 30) as run:
        monkeypatch.setattr(runs, "LARGE_BYTES", 0)
        answers(encoder, QUESTION, sequences(encoder))
        gc.collect()
        kept = pinned_memory().unused
        await run([1])
        assert sum(pinned_memory()) >= kept > 0  # little enough to be kept
        monkeypatch.setattr(device_memory, "PINNED_BYTES", kept // 2)
        for _ in range(2):  # it is given back behind the first one's answer
            await run([1])
        assert pinned_memory().unused < kept // 2


@pytest.mark.parametrize(("processors", "sleeps"), [(4, True), (5, False)])
def test_a_wait_sleeps_where_processors_are_few(
    encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch, processors: int, sleeps: bool
) -> None:
    made: list[dict[str, Any]] = []
    event = torch.cuda.Event

    def noted(**options: Any) -> torch.cuda.Event:
        made.append(options)
        return event(**options)

    monkeypatch.setattr(batch, "processors", lambda: processors)
    monkeypatch.setattr(torch.cuda, "Event", noted)
    answers(encoder, QUESTION, sequences(encoder))
    assert made == [{"blocking": sleeps}]
