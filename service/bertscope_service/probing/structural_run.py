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
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.probing.blocks import placed, step_tokens
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.structural import BATCH, COPIES, Forest, Quantity, StructuralProbes, StructuralSize
from bertscope_service.probing.tree_scores import Tally, TreeScore, import_scipy, whole_score
from bertscope_service.probing.work import Step, bring, fill, run_step, run_steps


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
    edits: Edits | None
    report: Callable[[StructuralProgress], None]
    _states: SpanStates = field(init=False)
    _trained: list[StructuralProbes] = field(init=False, default_factory=list)

    async def run(self, *, on_disk: bool) -> StructuralTrained:
        """Computes states and trains probes. Raises FailedPrecondition if the states are not finite, or the disk is full."""
        began, plan, device = time.monotonic(), self.plan, self.encoder.device
        size = structural_size(plan, self.encoder, self.settings)
        shape = (plan.words, size.layers, size.hidden)
        await self.bulk.compute(import_scipy)
        self._states = await self.bulk.compute(partial(SpanStates, shape, device, on_disk=on_disk))
        rows = [row for part in plan.parts for row in part.rows]

        def report(done: int) -> None:
            self.report(StructuralProgress(training=False, done=done, total=len(rows)))

        await fill(self._states.add, self.bulk, self.encoder, rows, self.edits, report)
        await bring(self.bulk, self.encoder, self._states)
        train = plan.train.words
        spans = size.limits.evaluated_spans
        measured = (slice(begin, min(begin + spans, train)) for begin in range(0, train, spans))
        cost = step_tokens(0, spans * size.layers * size.hidden)
        await self._work(Step(cost, partial(self._states.measure, chosen)) for chosen in measured)
        await self._work([Step(step_tokens(0, size.layers * size.hidden), partial(self._standardise, train))])
        await self._work(Step(step_tokens(0, 3 * own.values), partial(self._make, own)) for own in size.blocks())
        await self._train()
        dev, test = await self._scores(plan.dev.trees), plan.test.trees
        tested = await self._scores(test) if test else None
        parts = [probes.size.block for probes in self._trained]
        epochs = placed(parts, [probes.best_epoch for probes in self._trained])
        losses = placed(parts, [probes.best_loss for probes in self._trained])
        return StructuralTrained(epochs, losses, dev, tested, on_disk, time.monotonic() - began)

    def _standardise(self, train: int) -> None:
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

    def _make(self, size: StructuralSize) -> None:
        settings, device = self.settings, self.encoder.device
        seeds = settings.seeds[size.block.groups]
        epochs, patience = settings.max_epochs, settings.patience
        self._trained.append(StructuralProbes(size, settings.quantity, seeds, device, max_epochs=epochs, patience=patience))

    async def _train(self) -> None:
        settings, trees = self.settings, self.plan.train.trees
        generator = np.random.default_rng([settings.seeds[0], 2])
        going, epoch, best = self._trained, 0, 0.0
        while going:
            self.report(StructuralProgress(training=True, done=epoch, total=settings.max_epochs, loss=best))
            order = generator.permutation(len(trees)).tolist()
            batches = [[trees[index] for index in order[begin : begin + BATCH]] for begin in range(0, len(order), BATCH)]
            await self._work(step for batch in batches for probes in going for step in self._steps(probes, batch))
            epoch, others = epoch + 1, []
            for probes in going:
                cost, end = step_tokens(0, 2 * probes.size.values), partial(probes.end_epoch, await self._dev_loss(probes))
                others += [probes] * await run_step(self.bulk, self.encoder, cost, end)
            going, best = others, min(float(probes.best_loss.min()) for probes in self._trained)
        self.report(StructuralProgress(training=True, done=epoch, total=settings.max_epochs, loss=best))
        await self._work(Step(step_tokens(0, one.size.values), one.end) for one in self._trained)

    def _steps(self, probes: StructuralProbes, batch: Sequence[Tree]) -> Iterable[Step]:
        for part in probes.size.parts(batch):
            work = partial(self._accumulate, probes, part, len(batch))
            yield Step(3 * probes.size.tokens(part), work)
        yield Step(step_tokens(0, COPIES * probes.size.values), probes.update)

    def _accumulate(self, probes: StructuralProbes, trees: Sequence[Tree], texts: int) -> None:
        probes.accumulate(self._read(probes, trees), self._forest(trees), texts)

    async def _dev_loss(self, probes: StructuralProbes) -> NDArray[np.float64]:
        """Returns a block's mean loss on the dev texts, [layers, seeds]."""
        size, trees = probes.size, self.plan.dev.trees
        total = torch.zeros((size.layers, size.seeds), dtype=torch.float64, device=self.encoder.device)

        def step(part: Sequence[Tree]) -> None:
            forest = self._forest(part)
            with torch.no_grad():
                predicted = probes.predict(self._read(probes, part), forest, probes.maps)
                total.add_(forest.errors(predicted).sum(dim=-1, dtype=torch.float64))

        await self._work(Step(size.tokens(part), partial(step, part)) for part in size.parts(trees))
        return await run_step(self.bulk, self.encoder, 1, lambda: np.asarray((total / len(trees)).cpu().numpy()))

    async def _scores(self, trees: Sequence[Tree]) -> PartScores:
        """Scores probes, projections and the chain on the trees of a part."""
        parts, of_chain = [probes.size.block for probes in self._trained], Tally((1, 1))

        def step(tree: Tree) -> None:
            (gold,) = self._forest([tree]).gold.cpu().numpy()
            of_chain.add(tree, chain(len(tree), gold.ndim)[None, None], gold)

        await self._work(Step(step_tokens(0, 10 * len(tree) ** 2), partial(step, tree)) for tree in trees)
        found = [await self._tallies(probes, trees) for probes in self._trained]
        of_probes, of_projections = ([own.score() for own in tallies] for tallies in zip(*found, strict=True))
        return PartScores(whole_score(parts, of_probes), whole_score(parts, of_projections), of_chain.score())

    async def _tallies(self, probes: StructuralProbes, trees: Sequence[Tree]) -> tuple[Tally, Tally]:
        """Scores the probes and the projections of a block on some trees."""
        size = probes.size
        tallies = Tally((size.layers, size.seeds)), Tally((size.layers, size.seeds))

        def step(tree: Tree) -> None:
            forest, states = self._forest([tree]), self._read(probes, [tree])
            (gold,) = forest.gold.cpu().numpy()
            for tally, maps in zip(tallies, (probes.maps, probes.projections), strict=True):
                with torch.no_grad():
                    predicted = probes.predict(states, forest, maps)
                tally.add(tree, predicted[:, :, 0].cpu().numpy(), gold)

        await self._work(Step(5 * size.tokens([tree]), partial(step, tree)) for tree in trees)
        return tallies

    def _forest(self, trees: Sequence[Tree]) -> Forest:
        return Forest.of(trees, self.settings.quantity, self.encoder.device)

    def _read(self, probes: StructuralProbes, trees: Sequence[Tree]) -> torch.Tensor:
        """Returns the states of the trees' words that a block reads, [words, layers, hidden]."""
        rows = np.concatenate([np.arange(tree.begin, tree.begin + len(tree)) for tree in trees])
        return self._states.read(torch.from_numpy(rows), probes.size.block.layers)

    async def _work(self, steps: Iterable[Step]) -> None:
        await run_steps(self.bulk, self.encoder, steps)


def chain(words: int, dimensions: int) -> NDArray[np.float32]:
    """Returns distances (2 dimensions) or depths (1) of words in a chain that begins with the root."""
    places = np.arange(words, dtype=np.float32)
    return np.abs(places[:, None] - places) if dimensions == 2 else places


def structural_size(plan: TreePlan, encoder: Encoder, settings: StructuralSettings) -> StructuralSize:
    """Returns the size of the training of a plan."""
    layers, shape = len(plan.query.layers), encoder.shape
    return StructuralSize(layers, shape.hidden_size, len(settings.seeds), settings.rank, device=encoder.device)
