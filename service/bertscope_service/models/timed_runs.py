"""Timed runs of models on leased devices: one at a time, in alternation, in batches."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.cloze import NOTHING_ASKED
from bertscope_service.analyses.observers.answers import AnswerObserver
from bertscope_service.analyses.observers.declared_pooling import WholeText
from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.predictions import LabelObserver
from bertscope_service.analyses.observers.token_labels import TokenLabelObserver
from bertscope_service.analyses.states import StatesObserver
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.lease import Lease
from bertscope_service.models.working_memory import working_bytes

Batch = Sequence[TokenSequence]
Times = Sequence[Sequence[NDArray[np.float64]]]
"""Seconds, [models][rounds][runs]."""

TOP_K = 5
SLICE_SECONDS = 0.2
"""Maximum seconds of runs that the worker gets at a time: the device is returned as fast after a cancellation."""

MIN_ROUNDS = 3
WARM_UP_ROUNDS = 10
WARM_UP_RUNS = 5
WARM_UP_SECONDS = 0.05
STEADY_ROUNDS = 3
STEADY = 1.05
"""A model is warm when the medians of its last rounds differ by no more than this factor."""


class Work(Protocol):
    """Runs a batch on the worker's thread; the results are on the host at the end."""

    def __call__(self, encoder: Encoder, batch: Batch) -> None: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """A model on a leased device, and its work on a batch; None is the work of its head."""

    encoder: Encoder
    lease: Lease
    work: Work | None = None

    async def times(self, batches: Sequence[Batch]) -> list[float]:
        """Runs each batch once. Returns the seconds of each."""
        found: list[float] = []
        while len(found) < len(batches):
            found += await self.times_within(batches[len(found) :], SLICE_SECONDS)
        return found

    async def times_within(self, batches: Sequence[Batch], seconds: float) -> list[float]:
        """Does the same with the batches that begin within `seconds`; at least one."""
        work = partial(timed, self.encoder, batches, seconds, self.work or run)
        return await self.lease.call(work, encoder=self.encoder, tokens=max(map(_padded_tokens, batches)))

    async def working_bytes(self, batch: Batch) -> int:
        """Measures the memory that running a batch takes beyond the weights, bytes."""
        work = partial(working_bytes, self.encoder.device, partial(self.work or run, self.encoder, batch))
        return await self.lease.call(work, encoder=self.encoder, tokens=2 * _padded_tokens(batch))


def _padded_tokens(batch: Batch) -> int:
    return len(batch) * max(map(len, batch))


def run(encoder: Encoder, batch: Batch) -> None:
    """Runs the same work as a FillMask, Classify, PredictValues, ClassifyTokens or AnswerQuestions request.

    These are all layers, then the masked-LM head at one position of each sequence with its likeliest pieces, or the
    head over texts, over all tokens or over spans; the results are on the host at the end.
    """
    state, shape = encoder.begin(batch), encoder.shape
    tensors: tuple[torch.Tensor, ...] = ()
    if encoder.capabilities.masked_lm:
        top_k = min(TOP_K, shape.vocabulary_size)
        observers = [MaskObserver((len(sequence) // 2,), top_k, NOTHING_ASKED) for sequence in batch]
        tensors = MaskObserver.run(encoder, state, None, observers).tensors
    elif encoder.capabilities.sequence_head:
        tensors = LabelObserver.run(encoder, state, None, [LabelObserver()] * len(batch)).tensors
    elif encoder.capabilities.token_classification and not encoder.capabilities.drops_tokens:
        labels = [TokenLabelObserver(tuple(range(len(sequence)))) for sequence in batch]
        tensors = TokenLabelObserver.run(encoder, state, None, labels).tensors
    elif encoder.capabilities.question_answering and not encoder.capabilities.drops_tokens:
        tensors = AnswerObserver.run(encoder, state, None, [AnswerObserver()] * len(batch)).tensors
    else:
        encoder.advance(state, shape.layers)
    _fetch(tensors, encoder.device)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Runs the same work as an EmbedTexts request: all layers, then one vector of each sequence, by the mean of its states
    unless the model declares another pooling."""

    declared: DeclaredPooling | None = None

    def __call__(self, encoder: Encoder, batch: Batch) -> None:
        layers, size = (encoder.shape.layers,), encoder.shape.hidden_size
        if self.declared is not None:
            size *= len(self.declared.modes)
        observers = [StatesObserver(layers, torch.float32, True, size, self._whole(len(sequence))) for sequence in batch]
        _fetch(StatesObserver.run(encoder, encoder.begin(batch), None, observers).tensors, encoder.device)

    def _whole(self, length: int) -> Units | WholeText:
        return Units.made([range(length)], Pooling.MEAN) if self.declared is None else WholeText(self.declared)


def _fetch(tensors: Sequence[torch.Tensor], device: torch.device) -> None:
    for tensor in tensors:
        tensor.to("cpu")
    _synchronize(device)


def _synchronize(device: torch.device) -> None:
    """Waits until a device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def timed(encoder: Encoder, batches: Sequence[Batch], seconds: float, work: Work) -> list[float]:
    """Runs batches for `seconds`, on the worker's thread. Returns the seconds of each.

    Disables garbage collection meanwhile, which would collect the whole process's garbage.
    """
    found: list[float] = []
    _synchronize(encoder.device)
    collects = gc.isenabled()
    gc.disable()
    try:
        ends = time.perf_counter() + seconds
        for batch in batches:
            began = time.perf_counter()
            work(encoder, batch)
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
    """The runs of one model in each round: `batches(round)`; `lead` runs the first of them untimed before."""

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
    """The end of a measurement: rounds, and runs and seconds of each model, or the time `ends` (time.monotonic())."""

    rounds: int
    runs: int
    seconds: float
    ends: float

    def part(self, rounds: int, runs: int, seconds: float) -> float:
        """Returns the finished part, 0 to 1; runs and seconds are those of the model with the fewest."""
        parts = (rounds / max(MIN_ROUNDS, self.rounds), runs / self.runs, seconds / self.seconds if self.seconds else 1.0)
        return min(1.0, *parts)


async def alternate(turns: Sequence[Turn], enough: Enough, seed: int, tick: Callable[[float], None]) -> tuple[Times, bool]:
    """Times models in turn, in the order of `orders`. Returns the times, and whether `enough` was reached before its end.

    `tick` receives the finished part, 0 to 1.
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
    """Yields the order of models in each round, without end: a random order and then its reverse, so that all are early
    equally often."""
    generator = np.random.default_rng(seed)
    while True:
        drawn: list[int] = generator.permutation(count).tolist()
        yield drawn
        yield drawn[::-1]


async def warm_up(trials: Sequence[Trial], batches: Sequence[Sequence[Batch]], ends: float) -> list[float]:
    """Runs models in turn until each is steady, for ten rounds at most, or until `ends`, a time.monotonic(); at least once.

    `batches` are the batches of each model, [models][batches]. Returns the seconds of one run of each in the last round.
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
    """Checks that the last medians are about the same."""
    last = medians[-STEADY_ROUNDS:]
    return len(last) == STEADY_ROUNDS and max(last) <= STEADY * min(last)
