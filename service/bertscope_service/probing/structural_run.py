"""Runs TrainStructuralProbe: the states of all words once, then epochs of training, behind everybody's interactive rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.tree_probes import Tree, TreePlan
from bertscope_service.encoders.base import Encoder, Gates
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.structural import BATCH, Forest, Quantity, StructuralProbes, StructuralSize
from bertscope_service.probing.tree_scores import Tally, TreeScore
from bertscope_service.probing.work import fill, run_steps

MEASURED = 256
"""Words that are measured in a step."""
SCORED = 4
"""Texts that are scored in a step."""


@dataclass(frozen=True, slots=True)
class StructuralSettings:
    """How structural probes are trained; see bertscope.v1.TrainStructuralProbeRequest."""

    quantity: Quantity
    rank: int
    max_epochs: int
    patience: int
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StructuralProgress:
    """`done` of `total` texts were run, or epochs trained (`training`); the lowest loss on the dev texts so far."""

    training: bool
    done: int
    total: int
    loss: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class PartScores:
    """Scores on one part: of probes and projections, [layers, seeds], and of the chain, [1, 1]."""

    probes: TreeScore
    projections: TreeScore
    chain: TreeScore


@dataclass(frozen=True, slots=True, eq=False)
class StructuralTrained:
    """The result of TrainStructuralProbe. best_epoch: int64 [layers, seeds], from 1; best_loss: float64 of that shape, on the
    dev texts. test: None without test texts."""

    best_epoch: NDArray[np.int64]
    best_loss: NDArray[np.float64]
    dev: PartScores
    test: PartScores | None
    on_disk: bool
    seconds: float


@dataclass(slots=True, eq=False)
class StructuralTraining:
    """One TrainStructuralProbe call: its plan, and how it is run. `report` is told the progress."""

    encoder: Encoder
    plan: TreePlan
    settings: StructuralSettings
    bulk: BulkRunner
    gates: Gates | None
    report: Callable[[StructuralProgress], None]
    _states: SpanStates = field(init=False)
    _probes: StructuralProbes = field(init=False)

    async def run(self, *, on_disk: bool) -> StructuralTrained:
        """Computes states and trains probes. Raises FailedPrecondition if the states are not finite, or the disk is full."""
        began, plan, device = time.monotonic(), self.plan, self.encoder.device
        size = structural_size(plan, self.encoder, self.settings)
        shape = (plan.words, size.layers, size.hidden)
        self._states = await self.bulk.compute(partial(SpanStates, shape, device, on_disk=on_disk))
        rows = [row for part in plan.parts for row in part.rows]

        def report(done: int) -> None:
            self.report(StructuralProgress(training=False, done=done, total=len(rows)))

        await fill(self._states.add, self.bulk, self.encoder, rows, self.gates, report)
        train = plan.train.words
        measured = (slice(begin, min(begin + MEASURED, train)) for begin in range(0, train, MEASURED))
        await self._work((partial(self._states.measure, chosen) for chosen in measured), MEASURED)
        await self._work([partial(self._prepare, size, train)], MEASURED)
        await self._train()
        dev, test = await self._scores(plan.dev.trees), plan.test.trees
        tested = await self._scores(test) if test else None
        probes = self._probes
        return StructuralTrained(probes.best_epoch, probes.best_loss, dev, tested, on_disk, time.monotonic() - began)

    def _prepare(self, size: StructuralSize, train: int) -> None:
        """Sets each layer's factor: the mean square of differences, or of states, over the training words becomes 1."""
        states, settings = self._states, self.settings
        states.standardise(train)
        square = torch.where(states.scale > 0, states.scale.double() ** -2, 0).sum(dim=1, keepdim=True)
        if settings.quantity is Quantity.DISTANCE:
            square = 2 * square  # and the mean cancels out of differences
        else:
            square = square + states.mean.double().square().sum(dim=1, keepdim=True)
            states.mean = torch.zeros_like(states.mean)
        factor = torch.where(square > 0, square**-0.5, 0).float()
        states.scale = factor.expand_as(states.scale).contiguous()
        self._probes = StructuralProbes(
            size,
            settings.quantity,
            settings.seeds,
            self.encoder.device,
            max_epochs=settings.max_epochs,
            patience=settings.patience,
        )

    async def _train(self) -> None:
        probes, trees = self._probes, self.plan.train.trees
        generator = np.random.default_rng([self.settings.seeds[0], 2])
        more, best = True, 0.0
        while more:
            self.report(StructuralProgress(training=True, done=probes.epoch, total=probes.max_epochs, loss=best))
            order = generator.permutation(len(trees)).tolist()
            batches = ([trees[index] for index in order[begin : begin + BATCH]] for begin in range(0, len(order), BATCH))
            await self._work(step for batch in batches for step in self._steps(batch))
            loss = await self._dev_loss()
            ended: list[bool] = []
            await self._work([partial(self._end_epoch, loss, ended)])
            more, best = ended[-1], float(probes.best_loss.min())
        self.report(StructuralProgress(training=True, done=probes.epoch, total=probes.max_epochs, loss=best))
        probes.end()

    def _end_epoch(self, loss: NDArray[np.float64], ended: list[bool]) -> None:
        ended.append(self._probes.end_epoch(loss))

    def _steps(self, batch: Sequence[Tree]) -> Iterable[Callable[[], None]]:
        for part in self._probes.size.parts(batch):
            yield partial(self._accumulate, part, len(batch))
        yield self._probes.update

    def _accumulate(self, trees: Sequence[Tree], texts: int) -> None:
        self._probes.accumulate(self._read(trees), self._forest(trees), texts)

    async def _dev_loss(self) -> NDArray[np.float64]:
        """Returns the mean loss on the dev texts, [layers, seeds]."""
        size, trees = self._probes.size, self.plan.dev.trees
        total = torch.zeros((size.layers, size.seeds), dtype=torch.float64, device=self.encoder.device)

        def step(part: Sequence[Tree]) -> None:
            forest = self._forest(part)
            with torch.no_grad():
                predicted = self._probes.predict(self._read(part), forest, self._probes.maps)
                total.add_(forest.errors(predicted).sum(dim=-1, dtype=torch.float64))

        await self._work(partial(step, part) for part in size.parts(trees))
        found: NDArray[np.float64] = (total / len(trees)).cpu().numpy()
        return found

    async def _scores(self, trees: Sequence[Tree]) -> PartScores:
        """Scores probes, projections and the chain on the trees of a part."""
        probes = self._probes
        size = probes.size
        tallies = [Tally((size.layers, size.seeds)), Tally((size.layers, size.seeds)), Tally((1, 1))]

        def step(part: Sequence[Tree]) -> None:
            forest, states = self._forest(part), self._read(part)
            with torch.no_grad():
                predicted = [probes.predict(states, forest, maps).cpu().numpy() for maps in (probes.maps, probes.projections)]
            gold = forest.gold.cpu().numpy()
            for index, tree in enumerate(part):
                true = _own(gold[index], tree, gold.ndim - 1)
                for tally, values in zip(tallies, predicted, strict=False):
                    tally.add(tree, _own(values[:, :, index], tree, gold.ndim - 1), true)
                tallies[2].add(tree, chain(len(tree), gold.ndim - 1)[None, None], true)

        groups = (trees[begin : begin + SCORED] for begin in range(0, len(trees), SCORED))
        await self._work(partial(step, part) for group in groups for part in size.parts(group))
        return PartScores(*(tally.score() for tally in tallies))

    def _forest(self, trees: Sequence[Tree]) -> Forest:
        return Forest.of(trees, self.settings.quantity, self.encoder.device)

    def _read(self, trees: Sequence[Tree]) -> torch.Tensor:
        """Returns the states of the trees' words, [words, layers, hidden]."""
        rows = np.concatenate([np.arange(tree.begin, tree.begin + len(tree)) for tree in trees])
        return self._states.read(torch.from_numpy(rows))

    async def _work(self, steps: Iterable[Callable[[], None]], size: int = MEASURED) -> None:
        await run_steps(self.bulk, self.encoder, size, steps)


def _own(values: NDArray[np.float32], tree: Tree, dimensions: int) -> NDArray[np.float32]:
    """Returns values of words or pairs (2 dimensions) without padding."""
    return values[..., : len(tree), : len(tree)] if dimensions == 2 else values[..., : len(tree)]


def chain(words: int, dimensions: int) -> NDArray[np.float32]:
    """Returns distances (2 dimensions) or depths (1) of words in a chain that begins with the root."""
    places = np.arange(words, dtype=np.float32)
    return np.abs(places[:, None] - places) if dimensions == 2 else places


def structural_size(plan: TreePlan, encoder: Encoder, settings: StructuralSettings) -> StructuralSize:
    """Returns the size of the training of a plan."""
    return StructuralSize(len(plan.query.layers), encoder.shape.hidden_size, len(settings.seeds), settings.rank)
