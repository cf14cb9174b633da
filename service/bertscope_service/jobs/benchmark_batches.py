"""Finds the batch size of each model's best throughput.

Sizes are tried upwards and then once more downwards, all models in turn: what disturbs one try is hardly there at the other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import torch

from bertscope_service.engine.flight import out_of_memory
from bertscope_service.jobs.benchmark_runs import Batch, Trial

SLOWER = 0.9
PATIENCE = 2
"""A model gets no larger batches after so many sizes in a row whose throughput is below this part of its best."""

AS_GOOD = 0.97
"""Sizes whose throughput is at least this part of the best can't be told from it by a few tries."""

PASSES, PASS_SECONDS, PASS_MAX_SECONDS = 3, 0.05, 1.0
"""A size is tried at least so often and so long, or as long as models are measured if that is shorter; two tries that took
longer than the last are enough."""

Sample = Callable[[int], Sequence[Batch]]
"""Batches of a size that stand for all of it."""


@dataclass(slots=True)
class Search:
    """That of one model: sequences per second of each size, tried for so many `seconds`. The fastest try counts, as what else
    the machine does can only make it slower."""

    trial: Trial
    sample: Sample
    seconds: float
    rates: dict[int, float] = field(default_factory=dict)
    _slower: int = 0

    async def up(self, size: int) -> None:
        """Try a larger size than before, unless they have been given up. Raises what PyTorch does if the first one does not fit
        into the device's memory."""
        if self._slower >= PATIENCE:
            return
        try:
            await self._try(size, lead=True)
        except Exception as error:
            if not self.rates or not out_of_memory(error):
                raise
            self._slower = PATIENCE
        else:
            self._slower = self._slower + 1 if self.rates[size] < SLOWER * max(self.rates.values()) else 0
            return
        # Out here the error's traceback holds no tensors any more.
        if self.trial.encoder.device.type == "cuda":
            await self.trial.lease.call(torch.cuda.empty_cache)

    async def again(self, size: int) -> None:
        """Try a size once more; not one whose tries took so long that a moment's disturbance made no difference."""
        rate = self.rates.get(size)
        if rate is not None and PASSES * sum(map(len, self.sample(size))) / rate <= PASS_MAX_SECONDS:
            await self._try(size, lead=False)

    async def _try(self, size: int, *, lead: bool) -> None:
        """`lead`: run it once untimed before."""
        batches = self.sample(size)
        if lead:
            await self.trial.times(batches)
        passes: list[float] = []
        while len(passes) < PASSES or sum(passes) < self.seconds:
            if len(passes) > 1 and sum(passes) >= PASS_MAX_SECONDS:
                break
            passes.append(sum(await self.trial.times(batches)))
        self.rates[size] = max(self.rates.get(size, 0.0), sum(map(len, batches)) / min(passes))


async def best_batches(
    trials: Sequence[Trial], samples: Sequence[Sample], sizes: Sequence[int], seconds: float, ends: float
) -> list[tuple[int, float]]:
    """Of each model the batch size of its best throughput, and that, sequences per second.

    `sizes` ascend; the first is tried in any case, others until `ends`, a time.monotonic(). `seconds` is how long each model is
    measured afterwards.
    """
    brief = min(PASS_SECONDS, seconds)
    searches = [Search(trial, sample, brief) for trial, sample in zip(trials, samples, strict=True)]
    for size in sizes:
        for search in searches:
            await search.up(size)
        if time.monotonic() >= ends:
            break
    if len(sizes) > 1:
        for size, search in product(reversed(sizes), searches):
            if time.monotonic() >= ends:
                break
            await search.again(size)
    rates = [search.rates for search in searches]
    return [(size, own[size]) for size, own in zip(choose(rates), rates, strict=True)]


def choose(rates: Sequence[Mapping[int, float]]) -> list[int]:
    """A size for each of some models, by what is known of theirs: a best one, or one as good that suits more of them.

    Models that are equal would be told apart if noise alone gave them different sizes.
    """
    best = [max(own.values()) for own in rates]
    good = [[size for size in own if own[size] >= AS_GOOD * most] for own, most in zip(rates, best, strict=True)]
    suits = defaultdict[int, float](float)
    for own, most, sizes in zip(rates, best, good, strict=True):
        for size in sizes:
            suits[size] += own[size] / most
    return [max(sizes, key=suits.__getitem__) for sizes in good]
