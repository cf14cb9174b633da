"""The two scenarios of a benchmark on one kind of input: single sequences, and batches of each model's best size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from bertscope_service.encoders.base import TokenSequence
from bertscope_service.jobs.benchmark_batches import best_batches
from bertscope_service.jobs.benchmark_inputs import Inputs, Measurement
from bertscope_service.jobs.benchmark_runs import SLICE_SECONDS, Batch, Enough, Times, Trial, Turn, alternate, warm_up

T = TypeVar("T")
ROUNDS = 20
"""A fast model makes so many runs in each of its turns that it takes this many turns, or more, until it has had its time."""

LEAD_SECONDS = 0.01
"""Models whose run is shorter than this run once untimed before each of their turns: the caches still hold another model."""

WARM_UP_SHARE, SEARCH_SHARE = 0.2, 0.5
"""Parts of a scenario's time after which warming up and looking for the best batch end."""

SAMPLE = 4
"""So many texts, or batches of them, stand for all when a model is warmed up and batch sizes are tried."""

Report = Callable[[str, float], None]
"""Told what is done now, in words, and the part of the whole that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Offline:
    """Times of batches [models][rounds][runs], and the size of each model's.

    With texts: how many texts a round had [rounds], and how often each model ran them in it [models].
    """

    times: Times
    best: Sequence[int]
    texts: Sequence[int]
    repeats: Sequence[int]


@dataclass(frozen=True, slots=True)
class Runs:
    """All times of models on one kind of input; `single` are those of single sequences, [models][rounds][runs]."""

    inputs: Inputs
    single: Times
    offline: Offline


@dataclass(slots=True)
class Bench:
    """Models on their leased devices while they are measured.

    `working` is the most memory that each took beyond its weights, bytes; `cut_short` whether the time was too short for what
    was asked.
    """

    trials: Sequence[Trial]
    measurement: Measurement
    report: Report
    began: float = field(default_factory=time.monotonic)
    working: list[int] = field(init=False)
    cut_short: bool = False

    def __post_init__(self) -> None:
        self.working = [0] * len(self.trials)

    async def run(self, inputs: Inputs, stage: int, stages: int) -> Runs:
        """Both scenarios on one kind of input, which are numbers `stage` and `stage` + 1 of all `stages`."""
        self._say("warming up", stage / stages)
        tick = self._tick(f"latency {inputs.words}", stage, stages)
        single = await self._single(inputs, self._ends(stages - stage), tick)
        stage += 1
        self._say(f"trying batch sizes {inputs.words}", stage / stages)
        tick = self._tick(f"throughput {inputs.words}", stage, stages)
        offline = await self._offline(inputs, self._ends(stages - stage), tick)
        for index, (trial, own, size) in enumerate(zip(self.trials, inputs.sequences, offline.best, strict=True)):
            # Of texts the longest.
            self.working[index] = max(self.working[index], await trial.working_bytes(own[-size:]))
        return Runs(inputs, single, offline)

    async def _single(self, inputs: Inputs, ends: float, tick: Callable[[float], None]) -> Times:
        samples = [[[sequence] for sequence in _sample(own, inputs)] for own in inputs.sequences]
        seconds = await warm_up(self.trials, samples, _before(ends, WARM_UP_SHARE))
        # However many runs a model makes of a text, in one round all run the same texts.
        turn_seconds = self._turn_seconds(ends)
        size = min(inputs.count, _repeats(turn_seconds, max(seconds))) if inputs.of_texts else 1
        order = np.random.default_rng(self.measurement.bootstrap.seed).permutation(inputs.count)

        def turn(trial: Trial, own: Sequence[TokenSequence], one: float) -> Turn:
            repeats = _repeats(turn_seconds, size * one)

            def batches(number: int) -> Sequence[Batch]:
                places = order.take(range(number * size, (number + 1) * size), mode="wrap")
                return [[own[place]] for place in places.tolist()] * repeats

            return Turn(trial, batches, lead=one < LEAD_SECONDS)

        turns = [turn(*each) for each in zip(self.trials, inputs.sequences, seconds, strict=True)]
        return await self._alternate(turns, -(-inputs.count // size) if inputs.of_texts else 0, ends, tick)

    async def _offline(self, inputs: Inputs, ends: float, tick: Callable[[float], None]) -> Offline:
        samples = [partial(_batches, own, inputs) for own in inputs.sequences]
        tried = inputs.sizes(self.measurement.batch_sizes)
        best = await best_batches(self.trials, samples, tried, self.measurement.min_seconds, _before(ends, SEARCH_SHARE))
        sizes, turn_seconds = [size for size, _ in best], self._turn_seconds(ends)
        if not inputs.of_texts:
            repeats = [_repeats(turn_seconds, size / rate) for size, rate in best]
            alike = [[own[:size]] * often for own, size, often in zip(inputs.sequences, sizes, repeats, strict=True)]
            turns = [self._turn(index, best[index], partial(_always, batches)) for index, batches in enumerate(alike)]
            return Offline(await self._alternate(turns, 0, ends, tick), sizes, (), repeats)
        # In one round all models run the same texts, each in batches of its own size.
        groups = list(_cut(range(inputs.count), min(inputs.count, max(sizes))))
        order = np.random.default_rng(self.measurement.bootstrap.seed).permutation(len(groups)).tolist()
        repeats = [_repeats(turn_seconds, len(groups[0]) / rate) for _, rate in best]

        def of_round(index: int, number: int) -> list[Batch]:
            group = groups[order[number % len(groups)]]
            return list(_cut(inputs.sequences[index][group.start : group.stop], sizes[index])) * repeats[index]

        turns = [self._turn(index, best[index], partial(of_round, index)) for index in range(len(best))]
        times = await self._alternate(turns, len(groups), ends, tick)
        texts = [len(groups[order[number % len(groups)]]) for number in range(len(times[0]))]
        return Offline(times, sizes, texts, repeats)

    def _turn(self, index: int, best: tuple[int, float], batches: Callable[[int], Sequence[Batch]]) -> Turn:
        size, rate = best
        return Turn(self.trials[index], batches, lead=size / rate < LEAD_SECONDS)

    async def _alternate(self, turns: Sequence[Turn], rounds: int, ends: float, tick: Callable[[float], None]) -> Times:
        given = self.measurement
        enough = Enough(rounds, given.min_runs, given.min_seconds, ends)
        times, sufficed = await alternate(turns, enough, given.bootstrap.seed, tick)
        self.cut_short |= not sufficed
        return times

    def _turn_seconds(self, ends: float) -> float:
        """How long a model's turns should take: short enough for some rounds, of which intervals are made, also if it must end
        before all have had their time."""
        left = max(0.0, ends - time.monotonic()) / len(self.trials)
        return min(SLICE_SECONDS, self.measurement.min_seconds / ROUNDS, left / ROUNDS)

    def _ends(self, stages_left: int) -> float:
        """When the stage that begins now must end: all that are left get the same part of the time."""
        return _before(self.began + self.measurement.max_seconds, 1 / stages_left)

    def _tick(self, what: str, stage: int, stages: int) -> Callable[[float], None]:
        return lambda part: self._say(what, (stage + part) / stages)

    def _say(self, what: str, done: float) -> None:
        """Tell the caller how far it is, and those who are refused meanwhile how long it will take."""
        elapsed = time.monotonic() - self.began
        left = max(0.0, self.measurement.max_seconds - elapsed)
        for trial in self.trials:
            trial.lease.expect(min(left, elapsed * (1 - done) / done) if done else left)
        self.report(what, done)


def _sample(items: Sequence[T], inputs: Inputs) -> list[T]:
    """What stands for all: some of different length, or one where all are alike."""
    count = min(SAMPLE, len(items)) if inputs.of_texts else 1
    return [items[place] for place in np.linspace(0, len(items) - 1, count).round().astype(int).tolist()]


def _batches(sequences: Sequence[TokenSequence], inputs: Inputs, size: int) -> list[Batch]:
    """Of so many sequences each, which stand for all."""
    return _sample(list(_cut(sequences, size)), inputs)


def _cut(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Neighbours in groups of so many, the last one of what is left."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _repeats(turn_seconds: float, seconds: float) -> int:
    """How often something that takes so long is run in one turn."""
    return max(1, int(turn_seconds / seconds))


def _always(batches: Sequence[Batch], _: int) -> Sequence[Batch]:
    return batches


def _before(ends: float, share: float) -> float:
    """When so large a part of the time from now to `ends` is over."""
    now = time.monotonic()
    return now + share * max(0.0, ends - now)
