"""Runs TrainProbe: the states of all spans once, then epochs of training, each step behind everybody's interactive rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.probes import ProbePlan
from bertscope_service.encoders.base import Encoder, Gates
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.probing.kinds import EVALUATED, Size, mixing_shares
from bertscope_service.probing.lbfgs import LbfgsProbes
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.training import AdamProbes, Probes, Score, Settings
from bertscope_service.probing.work import fill, run_steps

SHOWN_EPOCHS = 10
"""So often are probes that go to the minimum evaluated on the dev spans, for the progress."""


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
class Outcome:
    """Holds what came of probes that were trained together. Arrays are [layers, groups]: groups of the task, then of the
    control task, one a seed.

    best_epoch: int64, from 1. gradient: of probes trained to the minimum, float64. test: None without test spans. hits: of each
    layer and each text with a scored span, its spans that probes of the task classify correctly, summed over seeds, int64
    [layers, texts].
    """

    best_epoch: NDArray[np.int64]
    dev: Score
    test: Score | None
    gradient: NDArray[np.float64] | None
    hits: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The result of TrainProbe.

    mix: of the mixes of the first 1, 2, ... layers, without a control task. mixing: float64 [seeds, 1 + layers], gamma and the
    share of each layer in the mix of all. best_layer: index of the layer. confusion: int64 [classes, classes], rows the true
    class. weights: those of the first seed, [layers, hidden, outputs], and biases [layers, outputs], for states as the model
    gives them; then those of the output of a hidden layer; empty unless asked for.
    """

    probes: Outcome
    mix: Outcome | None
    mixing: NDArray[np.float64] | None
    best_layer: int
    confusion: NDArray[np.int64]
    weights: tuple[NDArray[np.float32], ...]
    on_disk: bool
    seconds: float


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
    _trained: list[Probes] = field(init=False)

    async def run(self, *, on_disk: bool, weights: bool) -> Trained:
        """Computes states and trains probes. Raises FailedPrecondition if the states are not finite, or the disk is full."""
        began = time.monotonic()
        sizes = probe_sizes(self.plan, self.encoder, self.classes, self.settings)
        shape = (self.plan.spans, sizes[0].layers, sizes[0].hidden)
        train, dev, test = (len(part.labels) for part in self.plan.parts)
        self._states = await self.bulk.compute(partial(SpanStates, shape, self.encoder.device, on_disk=on_disk))
        await self._compute()
        labels = await self.bulk.compute(self._all_labels)
        await self._work(EVALUATED, (partial(self._states.measure, chosen) for chosen in _slices(slice(0, train))))
        await self._work(EVALUATED, [partial(self._prepare, sizes, train, labels)])
        await self._settle(train)
        await self._train(train, slice(train, train + dev))
        tested = slice(train + dev, train + dev + test) if test else None
        outcomes = [await self._outcome(own, slice(train, train + dev), tested) for own in self._trained]
        best_layer = int(outcomes[0].dev.loss[:, 0].argmin())
        confusion = await self._confusion(tested or slice(train, train + dev), best_layer)
        kept: list[tuple[NDArray[np.float32], ...]] = [()]
        if weights:
            await self._work(EVALUATED, [lambda: kept.append(self._weights())])
        mix, mixing = (outcomes[1], self._mixing()) if self.settings.mix else (None, None)
        seconds = time.monotonic() - began
        return Trained(outcomes[0], mix, mixing, best_layer, confusion, kept[-1], on_disk, seconds)

    async def _compute(self) -> None:
        """Computes the states of all spans, training spans first."""
        rows = [row for part in self.plan.parts for row in part.rows]

        def report(done: int) -> None:
            self.report(Progress(training=False, done=done, total=len(rows)))

        def add(states: NDArray[np.float32]) -> None:
            self._states.add(_joined(states) if self.plan.query.pairs else states)

        await fill(add, self.bulk, self.encoder, rows, self.gates, report)

    def _prepare(self, sizes: Sequence[Size], train: int, labels: NDArray[np.int64]) -> None:
        self._states.standardise(train)
        self._labels = torch.from_numpy(labels).to(self.encoder.device)
        self._trained = [
            probes_kind(size)(size, train, self.settings, (self.settings.seeds * 2)[: size.groups], self.encoder.device)
            for size in sizes
        ]

    async def _settle(self, train: int) -> None:
        """Standardises all states, and shows those of training spans to the probes."""
        every = slice(0, self.plan.spans)
        await self._work(EVALUATED, (partial(self._states.settle, chosen) for chosen in _slices(every)))
        self._states.end_settling()
        for probes in self._trained:
            await self._work(EVALUATED, (partial(self._survey, probes, chosen) for chosen in _slices(slice(0, train))))
            await self._work(EVALUATED, (partial(probes.prepare, layer) for layer in range(probes.size.layers)))

    def _survey(self, probes: Probes, chosen: slice) -> None:
        probes.survey(self._states.read(chosen))

    def _all_labels(self) -> NDArray[np.int64]:
        """Returns the labels of all spans, int64 [spans, groups]."""
        task = np.concatenate([part.labels for part in self.plan.parts])
        seeds = self.settings.seeds
        columns = [task] * len(seeds) + [self.plan.control_labels(seed) for seed in seeds]
        return np.stack(columns, axis=1)

    async def _train(self, train: int, dev: slice) -> None:
        settings, most = self.settings, len(self.settings.seeds)
        batch = min(probes.steps_of(probes.size, train) for probes in self._trained)
        shuffled = any(isinstance(probes, AdamProbes) for probes in self._trained)
        generator = torch.Generator("cpu").manual_seed(settings.seeds[0])
        going, epoch, best = self._trained, 0, 0.0
        while going:
            self.report(Progress(training=True, done=epoch, total=settings.max_epochs, accuracy=best))
            chosen: Iterable[slice | torch.Tensor] = _slices(slice(0, train), batch)
            if shuffled:
                chosen = torch.randperm(train, generator=generator, dtype=torch.int64, device="cpu").split(batch)
            await self._work(batch, (partial(self._step, going, part) for part in chosen))
            epoch, others = epoch + 1, []
            for probes in going:
                if not settings.to_minimum or epoch % SHOWN_EPOCHS == 1:
                    score = await self._evaluate(probes, dev)
                best = max(best, float(score.correct[:, :most].max()) / (dev.stop - dev.start))
                ended: list[bool] = []
                await self._work(batch, [partial(_end_epoch, probes, score, ended)])
                others += [probes] * ended[0]
            going = others
        self.report(Progress(training=True, done=epoch, total=settings.max_epochs, accuracy=best))
        for probes in self._trained:
            probes.end()

    async def _outcome(self, probes: Probes, dev: slice, test: slice | None) -> Outcome:
        of_dev = await self._evaluate(probes, dev) if self.settings.to_minimum else probes.best_dev
        of_test = await self._evaluate(probes, test) if test else None
        hits = await self._hits(probes, test or dev, (self.plan.test if test else self.plan.dev).counts)
        return Outcome(probes.best_epoch, of_dev, of_test, probes.gradient, hits)

    async def _hits(self, probes: Probes, part: slice, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts the correct spans of each text of a part, [layers, texts]."""
        texts = np.repeat(np.arange(len(counts)), counts)
        found = np.zeros((len(counts), probes.size.layers), dtype=np.int64)
        groups = len(self.settings.seeds)

        def step(chosen: slice) -> None:
            hits = probes.hits(self._states.read(chosen), self._labels[chosen, : probes.size.groups], groups)
            np.add.at(found, texts[chosen.start - part.start : chosen.stop - part.start], hits.T.cpu().numpy())

        batch = max(EVALUATED, probes.steps_of(probes.size, len(self.plan.train.labels)))
        await self._work(batch, (partial(step, chosen) for chosen in _slices(part, batch)))
        return found.T

    def _step(self, going: Sequence[Probes], chosen: slice | torch.Tensor) -> None:
        placed = chosen if isinstance(chosen, slice) else chosen.to(self._labels.device)
        states, labels = self._states.read(chosen), self._labels[placed]
        for probes in going:
            probes.step(states, labels[:, : probes.size.groups])

    async def _evaluate(self, probes: Probes, part: slice) -> Score:
        """Evaluates probes on the spans of a part."""
        size = probes.size
        score = Score(np.zeros((size.layers, size.groups), dtype=np.int64), np.zeros((size.layers, size.groups)))

        def step(chosen: slice) -> None:
            correct, losses = probes.evaluate(self._states.read(chosen), self._labels[chosen, : size.groups])
            np.add(score.correct, correct.cpu().numpy(), out=score.correct)
            np.add(score.loss, losses.cpu().numpy(), out=score.loss)

        batch = max(EVALUATED, probes.steps_of(size, len(self.plan.train.labels)))
        await self._work(batch, (partial(step, chosen) for chosen in _slices(part, batch)))
        np.divide(score.loss, part.stop - part.start, out=score.loss)
        return score

    async def _confusion(self, part: slice, layer: int) -> NDArray[np.int64]:
        """Counts the spans of a part by their class and the answer of the first probe of a layer."""
        counts = np.zeros((self.classes, self.classes), dtype=np.int64)

        def step(chosen: slice) -> None:
            answers = self._trained[0].answers(self._states.read(chosen), layer, 0)
            np.add.at(counts, (self._labels[chosen, 0].cpu().numpy(), answers.cpu().numpy()), 1)

        await self._work(EVALUATED, (partial(step, chosen) for chosen in _slices(part)))
        return counts

    def _weights(self) -> tuple[NDArray[np.float32], ...]:
        """Returns the first seed's weights and biases, the first for states that are not standardised."""
        found = [values[:, :, 0].detach() for values in self._trained[0].parameters]
        weights = found[0] * self._states.scale[:, :, None]
        moved = (self._states.mean[:, :, None].double() * weights.double()).sum(dim=1, keepdim=True)
        found[:2] = weights, (found[1] - moved).float()
        return tuple((values if index % 2 == 0 else values[:, 0]).cpu().numpy() for index, values in enumerate(found))

    def _mixing(self) -> NDArray[np.float64]:
        mixing, scale = (values.detach() for values in self._trained[1].parameters[:2])
        found = torch.cat([scale[-1], mixing_shares(mixing)[-1]])[..., 0]
        return found.T.double().cpu().numpy()

    async def _work(self, size: int, steps: Iterable[Callable[[], None]]) -> None:
        await run_steps(self.bulk, self.encoder, size, steps)


def probe_sizes(plan: ProbePlan, encoder: Encoder, classes: int, settings: Settings) -> list[Size]:
    """Returns the sizes of what is trained for a plan: probes of layers, then those of mixes if there are any."""
    seeds = len(settings.seeds)
    size = Size(len(plan.query.layers), vector_size(plan, encoder), 2 * seeds, classes, settings.hidden_units)
    return [size, replace(size, groups=seeds, mix=True)] if settings.mix else [size]


def probes_kind(size: Size) -> type[AdamProbes | LbfgsProbes]:
    """Returns what trains probes: where the minimum is one, L-BFGS finds it."""
    return AdamProbes if size.units or size.mix else LbfgsProbes


def probe_bytes(plan: ProbePlan, encoder: Encoder, classes: int, settings: Settings) -> int:
    """Returns the memory that training takes beside the states, approximately."""
    sizes = probe_sizes(plan, encoder, classes, settings)
    return sum(probes_kind(size).bytes(size, len(plan.train.labels)) for size in sizes)


def state_bytes(plan: ProbePlan, encoder: Encoder) -> int:
    """Returns the size of the states of a plan's spans, bytes."""
    return 4 * plan.spans * len(plan.query.layers) * vector_size(plan, encoder)


def vector_size(plan: ProbePlan, encoder: Encoder) -> int:
    """Returns the length of what a probe reads: a state, or two of a pair."""
    return encoder.shape.hidden_size * (2 if plan.query.pairs else 1)


def _joined(states: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the vectors of pairs, [pairs, layers, 2 hidden], of the states of all first spans and then all second ones."""
    return np.concatenate(np.split(states, 2), axis=2)


def _end_epoch(probes: Probes, dev: Score, more: list[bool]) -> None:
    more.append(probes.end_epoch(dev))


def _slices(part: slice, size: int = EVALUATED) -> Iterator[slice]:
    return (slice(begin, min(begin + size, part.stop)) for begin in range(part.start, part.stop, size))
