"""The two scenarios of a benchmark on one kind of input: single sequences, and batches of each model's best size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from bertscope_service.benchmark.batch_search import best_batches
from bertscope_service.benchmark.inputs import Inputs, Measurement
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.models.timed_runs import SLICE_SECONDS, Batch, Enough, Times, Trial, Turn, alternate, warm_up

T = TypeVar("T")
ROUNDS = 20
"""Minimum number of turns of a fast model: it makes as many runs in each turn as that takes."""

LEAD_SECONDS = 0.01
"""Models with a shorter run than this run once untimed before each of their turns, because the caches hold another model."""

WARM_UP_SHARE, SEARCH_SHARE = 0.2, 0.5
"""Parts of a scenario's time after which warm-up and the search for the best batch end."""

SAMPLE = 4
"""Number of texts, or batches of them, that represent all during warm-up and the search for batch sizes."""

Report = Callable[[str, float], None]
"""Receives the current work in words, and the finished part of the whole, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Offline:
    """Times of batches [models][rounds][runs], and the size of each model's.

    With texts: the number of texts in each round [rounds], and of each model's runs of them in a round [models].
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
    """Models on their leased devices during a measurement.

    `working` is the maximum memory of each beyond its weights, bytes; `cut_short` is set if the time was too short for the
    request.
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
        """Runs both scenarios on one kind of input; they are the stages `stage` and `stage` + 1 of `stages`."""
        self._report_progress("warming up", stage / stages)
        tick = self._tick(f"latency {inputs.words}", stage, stages)
        single = await self._single(inputs, self._ends(stages - stage), tick)
        stage += 1
        self._report_progress(f"trying batch sizes {inputs.words}", stage / stages)
        tick = self._tick(f"throughput {inputs.words}", stage, stages)
        offline = await self._offline(inputs, self._ends(stages - stage), tick)
        for index, (trial, own, size) in enumerate(zip(self.trials, inputs.sequences, offline.best, strict=True)):
            # The last texts are the longest.
            self.working[index] = max(self.working[index], await trial.working_bytes(own[-size:]))
        return Runs(inputs, single, offline)

    async def _single(self, inputs: Inputs, ends: float, tick: Callable[[float], None]) -> Times:
        samples = [[[sequence] for sequence in _sample(own, inputs)] for own in inputs.sequences]
        seconds = await warm_up(self.trials, samples, _before(ends, WARM_UP_SHARE))
        # In one round all models run the same texts; the number of runs of each text may differ.
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
        """Returns the duration of a model's turns, seconds: short enough for several rounds, which the intervals need."""
        left = max(0.0, ends - time.monotonic()) / len(self.trials)
        return min(SLICE_SECONDS, self.measurement.min_seconds / ROUNDS, left / ROUNDS)

    def _ends(self, stages_left: int) -> float:
        """Returns when the stage that begins now must end: all remaining stages get the same part of the time."""
        return _before(self.began + self.measurement.max_seconds, 1 / stages_left)

    def _tick(self, what: str, stage: int, stages: int) -> Callable[[float], None]:
        return lambda part: self._report_progress(what, (stage + part) / stages)

    def _report_progress(self, what: str, done: float) -> None:
        """Reports the progress, and updates the remaining time in refusals of other calls."""
        elapsed = time.monotonic() - self.began
        left = max(0.0, self.measurement.max_seconds - elapsed)
        for trial in self.trials:
            trial.lease.expect(min(left, elapsed * (1 - done) / done) if done else left)
        self.report(what, done)


def _sample(items: Sequence[T], inputs: Inputs) -> list[T]:
    """Returns items that represent all: some of different length, or one if all are alike."""
    count = min(SAMPLE, len(items)) if inputs.of_texts else 1
    return [items[place] for place in np.linspace(0, len(items) - 1, count).round().astype(int).tolist()]


def _batches(sequences: Sequence[TokenSequence], inputs: Inputs, size: int) -> list[Batch]:
    """Returns batches of `size` sequences that represent all."""
    return _sample(list(_cut(sequences, size)), inputs)


def _cut(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yields neighbours in groups of `size`; the last group may be smaller."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _repeats(turn_seconds: float, seconds: float) -> int:
    """Returns the number of runs of so many seconds in one turn."""
    return max(1, int(turn_seconds / seconds))


def _always(batches: Sequence[Batch], _: int) -> Sequence[Batch]:
    return batches


def _before(ends: float, share: float) -> float:
    """Returns when this share of the time from now to `ends` is over."""
    now = time.monotonic()
    return now + share * max(0.0, ends - now)
