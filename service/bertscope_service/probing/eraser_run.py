"""Runs TrainEraser: the states of all spans once, then one layer after another, each step behind everybody's interactive rows.

For a layer, the map is found, and probes are trained on states as they are, after the map, and without a random subspace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.probes import ProbePlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.probing.blocks import slices, step_tokens
from bertscope_service.probing.erasers import Eraser, Moments, leace, orthogonal, random_subspace, with_probe
from bertscope_service.probing.kinds import Size
from bertscope_service.probing.lbfgs import LbfgsProbes
from bertscope_service.probing.sizes import states_shape
from bertscope_service.probing.skeleton import TRAINING, Training
from bertscope_service.probing.steps import Step
from bertscope_service.probing.training import Settings

PROBES = Settings(max_epochs=800, to_minimum=True)
"""How probes are trained: to the minimum of what scikit-learn's LogisticRegression minimises with C = 1."""
NEAR_MINIMUM = Settings(max_epochs=60, to_minimum=True)
"""How those of INLP are: from there on, the directions that they read hardly change."""
SQUARES = 6
"""Float64 matrices [hidden, hidden] at a time: sums, covariance, its eigenvectors, and three in between."""

Read = Callable[[slice], torch.Tensor]
"""Gives vectors of some spans, one for each of several probes: float32 [spans, probes, hidden]."""


class Method(Enum):
    """How a map is found; see bertscope.v1.TrainEraserRequest.Method."""

    LEACE = "leace"
    INLP = "inlp"


@dataclass(frozen=True, slots=True)
class EraserSettings:
    """How maps are found. `rank`: the most directions that a map takes away."""

    method: Method
    rank: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class LayerEraser:
    """The eraser of a layer around `mean`, float32 [hidden], and a random projection of its rank.

    correct: test spans that probes classify correctly on states as they are, erased, and without the random subspace.
    """

    eraser: Eraser
    random: Eraser
    mean: NDArray[np.float32]
    correct: tuple[int, int, int]


class EraserTraining(Training[ProbePlan, EraserSettings, list[LayerEraser]]):
    """One TrainEraser call, of so many classes. It finds the erasers of all layers, in order."""

    _labels: torch.Tensor

    def __init__(self, plan: ProbePlan, settings: EraserSettings, *, classes: int) -> None:
        super().__init__(plan, settings)
        self.classes = classes

    def shape(self, encoder: Encoder) -> tuple[int, int, int]:
        return states_shape(self.plan, encoder)

    def needed_bytes(self, encoder: Encoder) -> int:
        hidden, rank = encoder.shape.hidden_size, self.settings.rank
        size = Size(3, hidden, 1, self.classes, device=encoder.device)
        maps = 2 * 8 * len(self.plan.query.layers) * hidden * (2 * rank + 1)
        probe = LbfgsProbes.bytes(size) + LbfgsProbes.step_bytes(size, len(self.plan.train.labels))
        return SQUARES * 8 * hidden**2 + maps + probe

    async def train(self) -> list[LayerEraser]:
        await self.standardise(len(self.plan.train.labels))
        labels = np.concatenate([part.labels for part in self.plan.parts])
        self._labels = torch.from_numpy(labels).to(self.encoder.device)
        found = []
        for index, layer in enumerate(self.plan.query.layers):
            self._show(index, 0)
            eraser = await (self._leace(index) if self.settings.method is Method.LEACE else self._inlp(index))
            random = random_subspace(self._hidden, eraser.rank, self.settings.seed, layer)
            # The probe of erased states is at its minimum first; the steps of the others are one product then.
            read = await self._reader(index, [eraser, orthogonal(np.zeros((self._hidden, 0))), random])
            after, before, by_chance = await self._correct(await self._fit(read, 3, PROBES), read, self._part(2))
            mean = await self.steps.result(1, partial(self._mean, index))
            found.append(LayerEraser(eraser, random, mean, (before, after, by_chance)))
        self._show(len(found), 0)
        return found

    @property
    def _hidden(self) -> int:
        return int(self.states.values.shape[2])

    def _show(self, layers: int, directions: int) -> None:
        most = self.settings.rank
        total = most * len(self.plan.query.layers)
        self.tell(TRAINING, most * layers + directions, total)

    def _part(self, number: int) -> slice:
        """Returns the spans of train (0), dev (1) or test (2)."""
        ends = np.cumsum([0, *(len(part.labels) for part in self.plan.parts)]).tolist()
        return slice(ends[number], ends[number + 1])

    def _mean(self, index: int) -> NDArray[np.float32]:
        return np.asarray(self.states.mean[index].cpu().numpy())

    async def _leace(self, index: int) -> Eraser:
        """Returns the map of LEACE for the layer with this index."""
        moments, size = Moments(self.states.mean[index], self.classes), self._size(1)

        def add(chosen: slice) -> None:
            moments.add(self.states.raw(chosen, index), self._labels[chosen])

        parts = slices(self._part(0), size.surveyed)
        await self.steps.run(Step(step_tokens(2 * size.surveyed * size.hidden**2), partial(add, part)) for part in parts)
        covariances = await self.steps.result(step_tokens(0, 2 * size.hidden**2), moments.covariances)
        return await self.bulk.compute(partial(leace, *covariances))

    async def _inlp(self, index: int) -> Eraser:
        """Returns the projection of INLP for the layer with this index."""
        basis, dev = np.zeros((self._hidden, 0)), self._part(1)
        common = np.bincount(self.plan.train.labels, minlength=self.classes).argmax()
        majority = int((self.plan.dev.labels == common).sum())
        while basis.shape[1] < self.settings.rank:
            read = await self._reader(index, [orthogonal(basis)])
            probe = await self._fit(read, 1, NEAR_MINIMUM)
            (correct,) = await self._correct(probe, read, dev)
            if correct <= majority:
                break
            weights = await self.steps.result(1, partial(self._weights, probe, index))
            wider = await self.bulk.compute(partial(with_probe, basis, weights, self.settings.rank))
            if wider.shape == basis.shape:
                break
            basis = wider
            self._show(index, basis.shape[1])
        return orthogonal(basis)

    def _weights(self, probe: LbfgsProbes, index: int) -> NDArray[np.float64]:
        """Returns what a probe reads of states that are not standardised, [hidden, classes]."""
        weights = probe.parameters[0][0, :, 0].double() * self.states.scale[index, :, None]
        return np.asarray(weights.cpu().numpy())

    async def _reader(self, index: int, erasers: Sequence[Eraser]) -> Read:
        """Returns the reader of the standardised states of a layer after each of some maps."""

        def place() -> list[tuple[torch.Tensor, torch.Tensor]]:
            scale = self.states.scale[index].double()
            inverse = torch.where(scale > 0, 1 / scale, 0)

            def placed(values: NDArray[np.float64], factor: torch.Tensor) -> torch.Tensor:
                return (torch.from_numpy(values).to(factor.device) * factor).float()

            return [(placed(one.right, inverse).T, placed(one.left.T, scale)) for one in erasers]

        maps = await self.steps.result(self._cost(1, len(erasers)), place)

        def read(chosen: slice) -> torch.Tensor:
            states = self.states.read(chosen, slice(index, index + 1))
            return torch.cat([states - (states @ right) @ left for right, left in maps], dim=1)

        return read

    async def _fit(self, read: Read, count: int, settings: Settings) -> LbfgsProbes:
        """Trains `count` probes on the training spans."""
        train, size = self._part(0), self._size(count)
        batch = LbfgsProbes.steps_of(size, train.stop)

        def make() -> LbfgsProbes:
            return LbfgsProbes(size, train.stop, settings, (self.settings.seed,), self.encoder.device)

        def learn(chosen: slice) -> None:
            probe.step(read(chosen), self._labels[chosen, None])

        def survey(chosen: slice) -> None:
            probe.survey(read(chosen))

        probe = await self.steps.result(step_tokens(0, size.values), make)
        if probe.surveys:
            square = count * size.hidden**2
            surveyed = self._cost(size.surveyed, count) + step_tokens(size.surveyed * square)
            await self.steps.run(Step(surveyed, partial(survey, part)) for part in slices(train, size.surveyed))
            inverted = step_tokens(size.hidden**3)
            await self.steps.run(Step(inverted, partial(probe.prepare, number)) for number in range(count))
        tokens, more = probe.step_tokens(batch) + self._cost(batch, count), True
        while more:
            await self.steps.run(Step(tokens, partial(learn, part)) for part in slices(train, batch))
            more = await self.steps.result(probe.end_tokens, partial(probe.end_epoch, probe.best_dev))
        await self.steps.run([Step(step_tokens(0, size.values), probe.end)])
        return probe

    async def _correct(self, probes: LbfgsProbes, read: Read, part: slice) -> list[int]:
        """Returns the spans of a part that each probe classifies correctly."""
        size, correct = probes.size, np.zeros(probes.size.layers, dtype=np.int64)

        def count(chosen: slice) -> None:
            found, _ = probes.evaluate(read(chosen), self._labels[chosen, None])
            np.add(correct, found[:, 0].cpu().numpy(), out=correct)

        tokens = step_tokens(size.evaluated * size.products) + self._cost(size.evaluated, size.layers)
        await self.steps.run(Step(tokens, partial(count, chosen)) for chosen in slices(part, size.evaluated))
        return list(correct.tolist())

    def _size(self, count: int) -> Size:
        return Size(count, self._hidden, 1, self.classes, device=self.encoder.device)

    def _cost(self, spans: int, maps: int) -> int:
        """Returns the tokens that so many maps of so many states count as."""
        return step_tokens(2 * maps * spans * self._hidden * self.settings.rank)
