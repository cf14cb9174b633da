"""Runs TrainProbe: the states of all spans once, then epochs of training, each step behind everybody's interactive rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.analyses.observers.steps import StepObserver, step_row
from bertscope_service.analyses.probes import ProbePlan
from bertscope_service.encoders.base import Encoder, Gates, TokenSequence
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.minimum import MinimumProbes
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.training import DevProbes, Probes, Score, Settings, Size

EVALUATED = 256
"""Spans that are evaluated in a step."""

NOT_FINITE = (
    "the model's hidden states are not finite in this precision or under these interventions; "
    "load it in fp32 or bf16, or use smaller scales"
)

Rows = Sequence[tuple[TokenSequence, SpanStatesObserver]]


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` texts were run, or epochs trained (`training`); the best share of dev spans that is answered
    correctly."""

    training: bool
    done: int
    total: int
    accuracy: float = 0.0


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The result of TrainProbe. Scores are [layers, groups]: groups of the task, then of the control task, one a seed.

    best_epoch: int64 [layers, groups], from 1. gradient: of probes trained to the minimum, float64. test: None without test
    spans. best_layer: index of the layer. confusion: int64 [classes, classes], rows the true class. weights: those of the first
    seed, [layers, hidden, classes], and biases [layers, classes], for states as the model gives them; None unless asked for.
    """

    best_epoch: NDArray[np.int64]
    dev: Score
    test: Score | None
    best_layer: int
    confusion: NDArray[np.int64]
    weights: tuple[NDArray[np.float32], NDArray[np.float32]] | None
    on_disk: bool
    seconds: float
    gradient: NDArray[np.float64] | None


@dataclass(slots=True, eq=False)
class ProbeTraining:
    """One TrainProbe call: its plan, its number of classes, and how it is run. `report` is told the progress."""

    encoder: Encoder
    plan: ProbePlan
    classes: int
    settings: Settings
    bulk: BulkRunner
    gates: Gates | None
    report: Report
    _states: SpanStates = field(init=False)
    _labels: torch.Tensor = field(init=False)
    _probes: Probes = field(init=False)

    async def run(self, *, on_disk: bool, weights: bool) -> Trained:
        """Computes states and trains probes. Raises FailedPrecondition if the states are not finite, or the disk is full."""
        began = time.monotonic()
        size = probe_size(self.plan, self.encoder, self.classes, self.settings)
        shape = (self.plan.spans, size.layers, size.hidden)
        train, dev, test = (len(part.labels) for part in self.plan.parts)
        self._states = await asyncio.to_thread(partial(SpanStates, shape, self.encoder.device, on_disk=on_disk))
        await self._compute()
        labels = await asyncio.to_thread(self._all_labels)
        await self._work(EVALUATED, (partial(self._states.measure, chosen) for chosen in _slices(slice(0, train))))
        await self._work(EVALUATED, [partial(self._prepare, size, train, labels)])
        await self._train(train, slice(train, train + dev))
        probes = self._probes
        tested = slice(train + dev, train + dev + test) if test else None
        found = await self._evaluate(tested) if tested else None
        best_layer = int(probes.best_dev.loss[:, 0].argmin())
        confusion = await self._confusion(tested or slice(train, train + dev), best_layer)
        kept: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        if weights:
            await self._work(EVALUATED, [lambda: kept.append(self._weights())])
        seconds = time.monotonic() - began
        return Trained(
            probes.best_epoch,
            probes.best_dev,
            found,
            best_layer,
            confusion,
            kept[0] if kept else None,
            on_disk,
            seconds,
            probes.gradient,
        )

    async def _compute(self) -> None:
        """Computes the states of all spans, training spans first."""
        done, total = 0, sum(len(part.rows) for part in self.plan.parts)
        self.report(Progress(training=False, done=0, total=total))
        for part in self.plan.parts:
            lengths = [len(sequence) for sequence, _ in part.rows]
            made = partial(_row, self.encoder, part.rows, self.gates)
            async with aclosing(self.bulk.results(lengths, made)) as results:
                async for states in results:
                    if states is None:
                        raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
                    self._states.add(states)
                    done += 1
                    self.report(Progress(training=False, done=done, total=total))

    def _prepare(self, size: Size, train: int, labels: NDArray[np.int64]) -> None:
        self._states.standardise(train)
        self._labels = torch.from_numpy(labels).to(self.encoder.device)
        kind = probes_kind(self.settings)
        self._probes = kind(size, train, self.settings, self.settings.seeds * 2, self.encoder.device)

    def _all_labels(self) -> NDArray[np.int64]:
        """Returns the labels of all spans, int64 [spans, groups]."""
        task = np.concatenate([part.labels for part in self.plan.parts])
        seeds = self.settings.seeds
        columns = [task] * len(seeds) + [self.plan.control_labels(seed) for seed in seeds]
        return np.stack(columns, axis=1)

    async def _train(self, train: int, dev: slice) -> None:
        probes, settings = self._probes, self.settings
        batch = probes.batch(train)
        generator = torch.Generator("cpu").manual_seed(settings.seeds[0])
        more, best = True, 0.0
        while more:
            self.report(Progress(training=True, done=probes.epoch, total=settings.max_epochs, accuracy=best))
            if settings.to_minimum:
                order = torch.arange(train, dtype=torch.int64, device="cpu")
            else:
                order = torch.randperm(train, generator=generator, dtype=torch.int64, device="cpu")
            await self._work(batch, (partial(self._step, part) for part in order.split(batch)))
            score = await self._evaluate(dev)
            best = max(best, float(score.correct[:, : len(settings.seeds)].max()) / (dev.stop - dev.start))
            ended: list[bool] = []
            await self._work(batch, [lambda score=score, ended=ended: ended.append(probes.end_epoch(score))])  # type: ignore[misc]
            more = ended[-1]
        self.report(Progress(training=True, done=probes.epoch, total=settings.max_epochs, accuracy=best))
        probes.end()

    def _step(self, chosen: torch.Tensor) -> None:
        self._probes.step(self._states.read(chosen), self._labels[chosen.to(self._labels.device)])

    async def _evaluate(self, part: slice) -> Score:
        """Evaluates the probes on the spans of a part."""
        size = self._probes.size
        score = Score(np.zeros((size.layers, size.groups), dtype=np.int64), np.zeros((size.layers, size.groups)))

        def step(chosen: slice) -> None:
            correct, losses = self._probes.evaluate(self._states.read(chosen), self._labels[chosen])
            np.add(score.correct, correct.cpu().numpy(), out=score.correct)
            np.add(score.loss, losses.cpu().numpy(), out=score.loss)

        await self._work(EVALUATED, (partial(step, chosen) for chosen in _slices(part)))
        np.divide(score.loss, part.stop - part.start, out=score.loss)
        return score

    async def _confusion(self, part: slice, layer: int) -> NDArray[np.int64]:
        """Counts the spans of a part by their class and the answer of the first probe of a layer."""
        counts = np.zeros((self.classes, self.classes), dtype=np.int64)

        def step(chosen: slice) -> None:
            answers = self._probes.answers(self._states.read(chosen), layer, 0)
            np.add.at(counts, (self._labels[chosen, 0].cpu().numpy(), answers.cpu().numpy()), 1)

        await self._work(EVALUATED, (partial(step, chosen) for chosen in _slices(part)))
        return counts

    def _weights(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns the first seed's weights and biases for states that are not standardised."""
        found = [self._probes.weights(layer, 0) for layer in range(self._probes.size.layers)]
        weights = torch.stack([own for own, _ in found]) * self._states.scale[:, :, None]
        biases = torch.stack([own for _, own in found]) - (self._states.mean[:, :, None].double() * weights.double()).sum(dim=1)
        return weights.cpu().numpy(), biases.float().cpu().numpy()

    async def _work(self, size: int, steps: Iterable[Callable[[], None]]) -> None:
        """Runs steps of about `size` spans on the device's thread, in order."""

        def groups() -> Iterator[tuple[None, list[Row]]]:
            for step in steps:
                sequence, state = step_row(size)
                yield None, [Row(self.encoder, sequence, StepObserver(step), None, state)]

        async with aclosing(self.bulk.map(groups())) as done:
            async for _ in done:
                pass


def probe_size(plan: ProbePlan, encoder: Encoder, classes: int, settings: Settings) -> Size:
    """Returns the size of the training of a plan."""
    return Size(len(plan.query.layers), encoder.shape.hidden_size, 2 * len(settings.seeds), classes)


def probes_kind(settings: Settings) -> type[DevProbes | MinimumProbes]:
    """Returns what trains probes."""
    return MinimumProbes if settings.to_minimum else DevProbes


def probe_bytes(plan: ProbePlan, encoder: Encoder, classes: int, settings: Settings) -> int:
    """Returns the memory that training takes beside the states, approximately."""
    return probe_size(plan, encoder, classes, settings).bytes(len(plan.train.labels), probes_kind(settings).COPIES)


def state_bytes(plan: ProbePlan, encoder: Encoder) -> int:
    """Returns the size of the states of a plan's spans, bytes."""
    return 4 * plan.spans * len(plan.query.layers) * encoder.shape.hidden_size


def _row(encoder: Encoder, rows: Rows, gates: Gates | None, number: int) -> Row:
    sequence, observer = rows[number]
    return Row(encoder, sequence, observer, gates)


def _slices(part: slice) -> Iterator[slice]:
    return (slice(begin, min(begin + EVALUATED, part.stop)) for begin in range(part.start, part.stop, EVALUATED))
