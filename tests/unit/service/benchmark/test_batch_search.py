"""The search for the best batch size: one slow moment does not decide it, and equal models get the same size."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bertscope_service.benchmark.batch_search import best_batches, choose
from bertscope_service.encoders.sequences import TokenSequence

SIZES = (1, 2, 4, 8, 16, 32)
ONE = TokenSequence([1], [0])


@dataclass
class Scripted:
    """Runs batches at given rates, sequences per second by size; `disturbed` are sizes that are ten times as slow at first."""

    rates: dict[int, float]
    disturbed: set[int] = field(default_factory=set)
    fits: float = math.inf
    tries: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    encoder: Any = field(default_factory=lambda: SimpleNamespace(device=torch.device("cpu")))

    async def times(self, batches: Sequence[Sequence[TokenSequence]]) -> list[float]:
        size = len(batches[0])
        if size > self.fits:
            raise torch.OutOfMemoryError("no room")
        self.tries[size] += 1
        slow = 10 if size in self.disturbed and self.tries[size] <= 10 else 1
        return [slow * size / self.rates[size] for _ in batches]


def sample(size: int) -> list[list[TokenSequence]]:
    return [[ONE] * size]


async def search(*trials: Any, ends: float = math.inf) -> list[tuple[int, float]]:
    return await best_batches(trials, [sample] * len(trials), SIZES, 1.0, ends)


def rising(**other: float) -> dict[int, float]:
    """Throughput that grows with the batch."""
    return {size: 1000.0 * (2 - 1 / size) for size in SIZES} | {int(size[1:]): rate for size, rate in other.items()}


@pytest.mark.asyncio
async def test_two_in_a_row_do() -> None:
    trial = Scripted(rising(_4=700.0, _8=700.0))
    assert [size for size, _ in await search(trial)] == [2]
    assert set(trial.tries) == {1, 2, 4, 8}


@pytest.mark.asyncio
async def test_who_was_disturbed_is_tried_again() -> None:
    """The best size, while it was tried first; passes take so long that only the second turn is quiet."""
    trial = Scripted({1: 30.0, 2: 60.0, 4: 40.0, 8: 40.0, 16: 40.0, 32: 40.0}, disturbed={2})
    trial.tries[2] = 6  # the lead and three passes are slow
    assert [size for size, _ in await search(trial)] == [2]


@pytest.mark.asyncio
async def test_what_does_not_fit_ends_the_search_unless_it_is_the_smallest() -> None:
    assert [size for size, _ in await search(Scripted(rising(), fits=8), Scripted(rising()))] == [8, 32]
    with pytest.raises(torch.OutOfMemoryError):
        await search(Scripted(rising(), fits=0))


@pytest.mark.asyncio
async def test_the_smallest_is_tried_even_without_time() -> None:
    trial = Scripted(rising())
    assert [size for size, _ in await search(trial, ends=-math.inf)] == [1]
    assert set(trial.tries) == {1}


def test_equal_models_get_the_same_size_whatever_noise_says() -> None:
    assert choose([{8: 99.0, 16: 100.0, 32: 98.0}, {8: 100.0, 16: 98.5, 32: 99.5}]) == [8, 8]
    assert choose([{8: 100.0, 16: 99.0, 32: 90.0}, {8: 90.0, 16: 99.0, 32: 100.0}]) == [16, 16]
    assert choose([{8: 100.0, 16: 90.0}, {8: 90.0, 16: 100.0}, {8: 95.0, 16: 100.0}]) == [8, 16, 16]
    assert choose([{1: 5.0}]) == [1]
