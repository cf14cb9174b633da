"""Timed runs of models on devices that are lent: one at a time, in alternation, in batches."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.cloze import NOTHING_ASKED
from bertscope_service.analyses.masks import MaskObserver
from bertscope_service.analyses.probes import LabelProbe
from bertscope_service.encoders.base import Encoder, TokenSequence
from bertscope_service.engine.lease import Lease
from bertscope_service.jobs.memory import working_bytes

Batch = Sequence[TokenSequence]
Times = Sequence[Sequence[NDArray[np.float64]]]
"""Seconds, [models][rounds][runs]."""

TOP_K = 5
SLICE_SECONDS = 0.2
"""Runs are handed to the worker for so long at a time: as fast the device is given back when nobody waits any more."""

MIN_ROUNDS = 3
WARM_UP_ROUNDS = 10
WARM_UP_RUNS = 5
WARM_UP_SECONDS = 0.05
STEADY_ROUNDS = 3
STEADY = 1.05
"""A model is warm when the medians of its last rounds differ by no more than this factor."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A model on a device that is lent."""

    encoder: Encoder
    lease: Lease

    async def times(self, batches: Sequence[Batch]) -> list[float]:
        """Run each batch once; how long each took, seconds."""
        found: list[float] = []
        while len(found) < len(batches):
            found += await self.lease.call(partial(timed, self.encoder, batches[len(found) :], SLICE_SECONDS))
        return found

    async def times_within(self, batches: Sequence[Batch], seconds: float) -> list[float]:
        """The same, of as many batches as begin within so long; at least one."""
        return await self.lease.call(partial(timed, self.encoder, batches, seconds))

    async def working_bytes(self, batch: Batch) -> int:
        """Memory that running a batch takes beyond the weights."""
        return await self.lease.call(partial(working_bytes, self.encoder.device, partial(run, self.encoder, batch)))


def run(encoder: Encoder, batch: Batch) -> None:
    """What answering a FillMask or Classify request takes of a model: all layers, the masked-LM head at one position of each
    sequence with its likeliest pieces, or the classification head; the results are on the host at the end."""
    state, shape = encoder.begin(batch), encoder.shape
    tensors: tuple[torch.Tensor, ...] = ()
    if shape.has_masked_lm_head:
        top_k = min(TOP_K, shape.vocabulary_size)
        observers = [MaskObserver((len(sequence) // 2,), top_k, NOTHING_ASKED) for sequence in batch]
        tensors = MaskObserver.run(encoder, state, None, observers).tensors
    elif shape.labels:
        tensors = LabelProbe.run(encoder, state, None, [LabelProbe()] * len(batch)).tensors
    else:
        encoder.advance(state, shape.layers)
    for tensor in tensors:
        tensor.to("cpu")
    if encoder.device.type == "cuda":
        torch.cuda.synchronize(encoder.device)


def timed(encoder: Encoder, batches: Sequence[Batch], seconds: float) -> list[float]:
    """Run batches until so much time has passed; how long each took. On the worker's thread.

    Meanwhile no garbage is collected: it would be that of the whole process.
    """
    found: list[float] = []
    if encoder.device.type == "cuda":
        torch.cuda.synchronize(encoder.device)
    collects = gc.isenabled()
    gc.disable()
    try:
        ends = time.perf_counter() + seconds
        for batch in batches:
            began = time.perf_counter()
            run(encoder, batch)
            now = time.perf_counter()
            found.append(now - began)
            if now >= ends:
                break
    finally:
        if collects:
            gc.enable()
    return found


@dataclass(frozen=True, slots=True)
class Turn:
    """What one model runs in each round: `batches(round)`; `lead` runs the first of them untimed before."""

    trial: Trial
    batches: Callable[[int], Sequence[Batch]]
    lead: bool = False

    async def take(self, number: int) -> list[float]:
        batches = self.batches(number)
        if not self.lead:
            return await self.trial.times(batches)
        return (await self.trial.times([batches[0], *batches]))[1:]


@dataclass(frozen=True, slots=True)
class Enough:
    """When models have been measured for long enough: rounds, and runs and seconds of each. `ends`, a time.monotonic(), is when
    it is enough even so."""

    rounds: int
    runs: int
    seconds: float
    ends: float

    def part(self, rounds: int, runs: int, seconds: float) -> float:
        """How much of it is done, 0 to 1; runs and seconds of the model that has the fewest."""
        parts = (rounds / max(MIN_ROUNDS, self.rounds), runs / self.runs, seconds / self.seconds if self.seconds else 1.0)
        return min(1.0, *parts)


async def alternate(turns: Sequence[Turn], enough: Enough, seed: int, tick: Callable[[float], None]) -> tuple[Times, bool]:
    """Times of models in turn, in the order that `orders` says, and whether `enough` was reached before it ended.

    `tick` is told the part that is done.
    """
    order = orders(len(turns), seed)
    times: list[list[NDArray[np.float64]]] = [[] for _ in turns]
    runs, seconds = np.zeros(len(turns), dtype=np.int64), np.zeros(len(turns))
    part = 0.0
    while part < 1:
        tick(part)
        number = len(times[0])
        if number >= MIN_ROUNDS and time.monotonic() >= enough.ends:
            return times, False
        for index in next(order):
            found = np.array(await turns[index].take(number))
            times[index].append(found)
            runs[index] += len(found)
            seconds[index] += found.sum()
        part = enough.part(number + 1, int(runs.min()), float(seconds.min()))
    tick(part)
    return times, True


def orders(count: int, seed: int) -> Iterator[list[int]]:
    """Who runs when, round by round, without end: an order is drawn and then turned round, so that nobody is early more often
    than others."""
    generator = np.random.default_rng(seed)
    while True:
        drawn: list[int] = generator.permutation(count).tolist()
        yield drawn
        yield drawn[::-1]


async def warm_up(trials: Sequence[Trial], batches: Sequence[Sequence[Batch]], ends: float) -> list[float]:
    """Run models in turn until each is steady, for ten rounds at most, or until `ends`, a time.monotonic(); at least once.

    `batches` are what each model runs, [models][batches]. Seconds of one run of each in the last round.
    """
    medians: list[list[float]] = [[] for _ in trials]
    for _ in range(WARM_UP_ROUNDS):
        for trial, own, found in zip(trials, batches, medians, strict=True):
            repeated = [*own] * -(-WARM_UP_RUNS // len(own))
            found.append(float(np.median(await trial.times_within(repeated, WARM_UP_SECONDS))))
        if time.monotonic() >= ends or all(map(steady, medians)):
            break
    return [found[-1] for found in medians]


def steady(medians: Sequence[float]) -> bool:
    """Whether the last of some medians are about the same."""
    last = medians[-STEADY_ROUNDS:]
    return len(last) == STEADY_ROUNDS and max(last) <= STEADY * min(last)
