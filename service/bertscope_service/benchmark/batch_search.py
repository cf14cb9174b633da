"""Finds the batch size of each model's best throughput.

Sizes are tried upwards and then once more downwards, all models in turn, so that a disturbance of one try hardly affects the
other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from bertscope_service.encoders.device_memory import out_of_memory, release_cache
from bertscope_service.models.timed_runs import Batch, Trial

SLOWER = 0.9
PATIENCE = 2
"""A model gets no larger batches after this many sizes in a row whose throughput is below SLOWER times its best."""

AS_GOOD = 0.97
"""Sizes whose throughput is at least this part of the best can't be distinguished from it by a few tries."""

PASSES, PASS_SECONDS, PASS_MAX_SECONDS = 3, 0.05, 1.0
"""Minimum passes and seconds of each size; shorter if models are measured for less. Two passes are enough if they took
longer than the maximum."""

Sample = Callable[[int], Sequence[Batch]]
"""Returns batches of a size that represent all of its batches."""


@dataclass(slots=True)
class Search:
    """The search of one model: sequences per second of each size, tried for `seconds`.

    The fastest try counts, because other work on the machine can only slow a try down.
    """

    trial: Trial
    sample: Sample
    seconds: float
    rates: dict[int, float] = field(default_factory=dict)
    _slower: int = 0

    async def up(self, size: int) -> None:
        """Tries a larger size than before, unless larger sizes have been given up.

        Raises what PyTorch does if the first size does not fit into the device's memory.
        """
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
        # After the handler, no traceback holds tensors.
        if self.trial.encoder.device.type == "cuda":
            await self.trial.lease.call(release_cache)

    async def again(self, size: int) -> None:
        """Tries a size once more, unless its tries were so long that a short disturbance made no difference."""
        rate = self.rates.get(size)
        if rate is not None and PASSES * sum(map(len, self.sample(size))) / rate <= PASS_MAX_SECONDS:
            await self._try(size, lead=False)

    async def _try(self, size: int, *, lead: bool) -> None:
        """Measures a size. `lead`: run it once untimed before."""
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
    """Returns each model's batch size of best throughput, and that throughput, sequences per second.

    `sizes` ascend; the first is tried in any case, others until `ends`, a time.monotonic(). `seconds` is the time for which
    each model is measured afterwards.
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
    """Chooses a size for each model from its rates: its best one, or an equally good one that suits more of the models.

    Otherwise noise would give equal models different sizes, and they would seem to differ.
    """
    best = [max(own.values()) for own in rates]
    good = [[size for size in own if own[size] >= AS_GOOD * most] for own, most in zip(rates, best, strict=True)]
    suits = defaultdict[int, float](float)
    for own, most, sizes in zip(rates, best, good, strict=True):
        for size in sizes:
            suits[size] += own[size] / most
    return [max(sizes, key=suits.__getitem__) for sizes in good]
