"""Runs TrainStructuralProbe: the states of all words once, then epochs of training, behind everybody's interactive rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.tree_probes import Tree, TreePlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.probing.blocks import placed, step_tokens
from bertscope_service.probing.skeleton import TRAINING, Training
from bertscope_service.probing.steps import Step
from bertscope_service.probing.structural import BATCH, COPIES, Forest, Quantity, StructuralProbes, StructuralSize
from bertscope_service.probing.tree_scores import Tally, TreeScore, import_scipy, whole_score


@dataclass(frozen=True, slots=True)
class StructuralSettings:
    """How structural probes are trained; see bertscope.v1.TrainStructuralProbeRequest."""

    quantity: Quantity
    rank: int
    max_epochs: int
    patience: int
    seeds: tuple[int, ...]


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


class StructuralTraining(Training[TreePlan, StructuralSettings, StructuralTrained]):
    """One TrainStructuralProbe call."""

    _trained: list[StructuralProbes]

    def shape(self, encoder: Encoder) -> tuple[int, int, int]:
        return self.plan.words, len(self.plan.query.layers), encoder.shape.hidden_size

    def size(self, encoder: Encoder) -> StructuralSize:
        """Returns the size of the training."""
        _, layers, hidden = self.shape(encoder)
        return StructuralSize(layers, hidden, len(self.settings.seeds), self.settings.rank, device=encoder.device)

    def needed_bytes(self, encoder: Encoder) -> int:
        size, longest = self.size(encoder), max(len(tree) for part in self.plan.parts for tree in part.trees)
        return size.bytes + max(block.step_bytes(longest) for block in size.blocks())

    async def train(self) -> StructuralTrained:
        plan, self._trained = self.plan, []
        await self.bulk.compute(import_scipy)
        await self.standardise(plan.train.words, self._scale)
        await self.steps.run(
            Step(step_tokens(0, 3 * own.values), partial(self._make, own)) for own in self.size(self.encoder).blocks()
        )
        await self._learn()
        dev, test = await self._scores(plan.dev.trees), plan.test.trees
        tested = await self._scores(test) if test else None
        parts = [probes.size.block for probes in self._trained]
        epochs = placed(parts, [probes.best_epoch for probes in self._trained])
        losses = placed(parts, [probes.best_loss for probes in self._trained])
        return StructuralTrained(epochs, losses, dev, tested)

    def _scale(self, train: int) -> None:
        """Sets each layer's factor: the mean square of differences, or of states, over the training words becomes 1."""
        states, settings = self.states, self.settings
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

    async def _learn(self) -> None:
        settings, trees = self.settings, self.plan.train.trees
        generator = np.random.default_rng([settings.seeds[0], 2])
        going, epoch, best = self._trained, 0, 0.0
        while going:
            self.tell(TRAINING, epoch, settings.max_epochs, best)
            order = generator.permutation(len(trees)).tolist()
            batches = [[trees[index] for index in order[begin : begin + BATCH]] for begin in range(0, len(order), BATCH)]
            await self.steps.run(step for batch in batches for probes in going for step in self._steps(probes, batch))
            epoch, others = epoch + 1, []
            for probes in going:
                cost, end = step_tokens(0, 2 * probes.size.values), partial(probes.end_epoch, await self._dev_loss(probes))
                others += [probes] * await self.steps.result(cost, end)
            going, best = others, min(float(probes.best_loss.min()) for probes in self._trained)
        self.tell(TRAINING, epoch, settings.max_epochs, best)
        await self.steps.run(Step(step_tokens(0, one.size.values), one.end) for one in self._trained)

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

        await self.steps.run(Step(size.tokens(part), partial(step, part)) for part in size.parts(trees))
        return await self.steps.result(1, lambda: np.asarray((total / len(trees)).cpu().numpy()))

    async def _scores(self, trees: Sequence[Tree]) -> PartScores:
        """Scores probes, projections and the chain on the trees of a part."""
        parts, of_chain = [probes.size.block for probes in self._trained], Tally((1, 1))

        def step(tree: Tree) -> None:
            (gold,) = self._forest([tree]).gold.cpu().numpy()
            of_chain.add(tree, chain(len(tree), gold.ndim)[None, None], gold)

        await self.steps.run(Step(step_tokens(0, 10 * len(tree) ** 2), partial(step, tree)) for tree in trees)
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

        await self.steps.run(Step(5 * size.tokens([tree]), partial(step, tree)) for tree in trees)
        return tallies

    def _forest(self, trees: Sequence[Tree]) -> Forest:
        return Forest.of(trees, self.settings.quantity, self.encoder.device)

    def _read(self, probes: StructuralProbes, trees: Sequence[Tree]) -> torch.Tensor:
        """Returns the states of the trees' words that a block reads, [words, layers, hidden]."""
        rows = np.concatenate([np.arange(tree.begin, tree.begin + len(tree)) for tree in trees])
        return self.states.read(torch.from_numpy(rows), probes.size.block.layers)


def chain(words: int, dimensions: int) -> NDArray[np.float32]:
    """Returns distances (2 dimensions) or depths (1) of words in a chain that begins with the root."""
    places = np.arange(words, dtype=np.float32)
    return np.abs(places[:, None] - places) if dimensions == 2 else places
