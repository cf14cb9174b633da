"""Runs TrainProbe: the states of all spans once, then epochs of training, each step behind everybody's interactive rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.probes import ProbePlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.probing.blocks import placed, slices, step_tokens
from bertscope_service.probing.kinds import Size, mixing_shares
from bertscope_service.probing.outcome import Outcome, Trained
from bertscope_service.probing.sizes import probe_bytes, probe_sizes, probes_kind, states_shape
from bertscope_service.probing.skeleton import TRAINING, Training
from bertscope_service.probing.steps import Step
from bertscope_service.probing.training import AdamProbes, Probes, Score, Settings

SHOWN_EPOCHS = 10
"""So often are probes that go to the minimum evaluated on the dev spans, for the progress."""


class ProbeTraining(Training[ProbePlan, Settings, Trained]):
    """One TrainProbe call. `outputs`: its number of classes, or 1 for numbers."""

    _labels: torch.Tensor
    _numbers: NDArray[Any]
    _trained: list[Probes]

    def __init__(self, plan: ProbePlan, settings: Settings, *, outputs: int, weights: bool) -> None:
        super().__init__(plan, settings, weights=weights)
        self.outputs = outputs

    def shape(self, encoder: Encoder) -> tuple[int, int, int]:
        return states_shape(self.plan, encoder)

    def needed_bytes(self, encoder: Encoder) -> int:
        return probe_bytes(self.plan, encoder, self.outputs, self.settings)

    def joined(self, found: NDArray[np.float32]) -> NDArray[np.float32]:
        # Of pairs: all first spans, then all second ones, become vectors [pairs, layers, 2 hidden].
        return np.concatenate(np.split(found, 2), axis=2) if self.plan.query.pairs else found

    async def train(self) -> Trained:
        train, dev, test = (len(part.labels) for part in self.plan.parts)
        await self.standardise(train)
        labels = await self.bulk.compute(self._all_labels)
        self._numbers, self._labels = labels, torch.from_numpy(labels).to(self.encoder.device)
        regression = self.settings.regression
        await self._prepare(train)
        await self._train(train, slice(train, train + dev))
        tested = slice(train + dev, train + dev + test) if test else None
        probes = await self._outcome(slice(train, train + dev), tested, mix=False)
        best_layer = int(probes.dev.loss[:, 0].argmin())
        scored = tested or slice(train, train + dev)
        confusion = np.zeros((0, 0), np.int64) if regression else await self._confusion(scored, best_layer)
        kept = await self._weights() if self.weights else ()
        mix, mixing = None, None
        if self.settings.mix:
            mix = await self._outcome(slice(train, train + dev), tested, mix=True)
            mixing = await self.steps.result(1, self._mixing)
        variances = self._variances(slice(train, train + dev), scored) if regression else None
        return Trained(probes, mix, mixing, best_layer, confusion, variances, kept)

    async def _prepare(self, train: int) -> None:
        """Standardises all states, makes the probes, and shows them the states of training spans."""
        await self.each(slice(0, self.plan.spans), self.states.settle)
        self.states.end_settling()
        seeds = self.settings.seeds * 2
        self._trained = []

        def make(size: Size) -> None:
            own = seeds[size.block.groups]
            self._trained.append(probes_kind(size)(size, train, self.settings, own, self.encoder.device))

        sizes = probe_sizes(self.plan, self.encoder, self.outputs, self.settings)
        await self.steps.run(Step(step_tokens(0, size.values), partial(make, size)) for size in sizes)
        for probes in (one for one in self._trained if one.surveys):
            size = probes.size
            square = size.layers * size.hidden**2
            parts = slices(slice(0, train), size.surveyed)
            await self.steps.run(
                Step(step_tokens(size.surveyed * square), partial(self._survey, probes, part)) for part in parts
            )
            cost = step_tokens(size.hidden**3)
            await self.steps.run(Step(cost, partial(probes.prepare, layer)) for layer in range(size.layers))

    def _survey(self, probes: Probes, chosen: slice) -> None:
        probes.survey(self.states.read(chosen, probes.size.read_layers))

    def _all_labels(self) -> NDArray[Any]:
        """Returns the labels of all spans, int64 [spans, groups], or the standardised numbers, float32."""
        task = np.concatenate([part.labels for part in self.plan.parts])
        seeds = self.settings.seeds
        columns = [task] * len(seeds) + [self.plan.control_labels(seed) for seed in seeds]
        labels = np.stack(columns, axis=1)
        mean, deviation = self.plan.target
        return ((labels - mean) / deviation).astype(np.float32) if self.settings.regression else labels

    def _variances(self, *parts: slice) -> NDArray[np.float64]:
        """Returns the variance of the standardised numbers of the spans of some parts, float64 [parts, groups]."""
        return np.stack([self._numbers[part].var(axis=0, dtype=np.float64) for part in parts])

    async def _train(self, train: int, dev: slice) -> None:
        settings = self.settings
        batch = min(probes.steps_of(probes.size, train) for probes in self._trained)
        shuffled = any(isinstance(probes, AdamProbes) for probes in self._trained)
        generator = torch.Generator("cpu").manual_seed(settings.seeds[0])
        going, epoch, best = self._trained, 0, 0.0
        scores: dict[Probes, Score] = {}
        while going:
            self.tell(TRAINING, epoch, settings.max_epochs, best)
            chosen: Sequence[slice | torch.Tensor] = list(slices(slice(0, train), batch))
            if shuffled:
                chosen = torch.randperm(train, generator=generator, dtype=torch.int64, device="cpu").split(batch)
            await self.steps.run(
                Step(probes.step_tokens(batch), partial(self._step, probes, part)) for part in chosen for probes in going
            )
            epoch, others = epoch + 1, []
            for probes in going:
                if not settings.to_minimum or epoch % SHOWN_EPOCHS == 1:
                    scores[probes] = await self._evaluate(probes, dev)
                best = max(best, self._accuracy(probes, scores[probes], dev))
                end = partial(probes.end_epoch, scores[probes])
                others += [probes] * await self.steps.result(probes.end_tokens, end)
            going = others
        self.tell(TRAINING, epoch, settings.max_epochs, best)
        await self.steps.run(Step(step_tokens(0, one.size.values), one.end) for one in self._trained)

    def _accuracy(self, probes: Probes, score: Score, dev: slice) -> float:
        """Returns the best share of dev spans that a probe of a block answers correctly, or R^2; control tasks don't count."""
        seeds = slice(0, max(0, len(self.settings.seeds) - probes.size.first_group))
        if self.settings.regression:
            variance = float(self._variances(dev, dev)[0, 0])
            error = float(2 * score.loss[:, seeds].min(initial=np.inf))
            return 1 - error / variance if error < variance else 0.0
        share: float = score.correct[:, seeds].max(initial=0) / (dev.stop - dev.start)
        return share

    async def _outcome(self, dev: slice, test: slice | None, *, mix: bool) -> Outcome:
        """Evaluates all probes of layers, or of mixes."""
        trained = [probes for probes in self._trained if probes.size.mix == mix]
        of_dev = [probes.best_dev for probes in trained]
        if self.settings.to_minimum:
            of_dev = [await self._evaluate(probes, dev) for probes in trained]
        of_test = [await self._evaluate(probes, test) for probes in trained] if test else None
        parts = [probes.size.block for probes in trained]
        read = [await self.steps.result(1, partial(_gradient, probes)) for probes in trained]
        gradients = [gradient for gradient in read if gradient is not None]

        def whole(scores: Sequence[Score]) -> Score:
            correct, losses = [score.correct for score in scores], [score.loss for score in scores]
            return Score(placed(parts, correct), placed(parts, losses))

        return Outcome(
            placed(parts, [probes.best_epoch for probes in trained]),
            whole(of_dev),
            None if of_test is None else whole(of_test),
            placed(parts, gradients) if gradients else None,
            await self._hits(trained, test or dev, (self.plan.test if test else self.plan.dev).counts),
        )

    async def _hits(self, trained: Sequence[Probes], part: slice, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Counts the correct spans of each text of a part, or sums their squared errors of standardised numbers, [layers,
        texts]."""
        texts = np.repeat(np.arange(len(counts)), counts)
        kind = np.float64 if self.settings.regression else np.int64
        found = np.zeros((len(counts), max(probes.size.block.layers.stop for probes in trained)), dtype=kind)

        def step(probes: Probes, chosen: slice) -> None:
            size, own = probes.size, texts[chosen.start - part.start : chosen.stop - part.start]
            groups = max(0, len(self.settings.seeds) - size.first_group)
            states, labels = self.states.read(chosen, size.read_layers), self._labels[chosen, size.block.groups]
            np.add.at(found[:, size.block.layers], own, probes.hits(states, labels, groups).T.cpu().numpy())

        for probes in trained:
            size = probes.size
            cost = step_tokens(size.evaluated * size.products)
            await self.steps.run(Step(cost, partial(step, probes, chosen)) for chosen in slices(part, size.evaluated))
        return found.T

    def _step(self, probes: Probes, chosen: slice | torch.Tensor) -> None:
        placed = chosen if isinstance(chosen, slice) else chosen.to(self._labels.device)
        probes.step(self.states.read(chosen, probes.size.read_layers), self._labels[placed, probes.size.block.groups])

    async def _evaluate(self, probes: Probes, part: slice) -> Score:
        """Evaluates the probes of a block on the spans of a part."""
        size = probes.size
        score = Score(np.zeros((size.layers, size.groups), dtype=np.int64), np.zeros((size.layers, size.groups)))

        def step(chosen: slice) -> None:
            states = self.states.read(chosen, size.read_layers)
            correct, losses = probes.evaluate(states, self._labels[chosen, size.block.groups])
            np.add(score.correct, correct.cpu().numpy(), out=score.correct)
            np.add(score.loss, losses.cpu().numpy(), out=score.loss)

        cost = step_tokens(size.evaluated * size.products)
        await self.steps.run(Step(cost, partial(step, chosen)) for chosen in slices(part, size.evaluated))
        np.divide(score.loss, part.stop - part.start, out=score.loss)
        return score

    async def _confusion(self, part: slice, layer: int) -> NDArray[np.int64]:
        """Counts the spans of a part by their class and the answer of the first probe of a layer."""
        counts = np.zeros((self.outputs, self.outputs), dtype=np.int64)
        probes = next(one for one in self._first() if layer < one.size.block.layers.stop)
        own = layer - probes.size.first_layer

        def step(chosen: slice) -> None:
            answers = probes.answers(self.states.read(chosen, slice(layer, layer + 1)), own, 0)
            np.add.at(counts, (self._labels[chosen, 0].cpu().numpy(), answers.cpu().numpy()), 1)

        await self.each(part, step)
        return counts

    def _first(self) -> list[Probes]:
        """Returns the blocks with the first seed's probes of the layers, in order."""
        return [probes for probes in self._trained if not probes.size.mix and not probes.size.first_group]

    async def _weights(self) -> tuple[NDArray[np.float32], ...]:
        """Returns the first seed's weights and biases, the first for states that are not standardised."""
        parts: list[list[NDArray[np.float32]]] = []

        def step(probes: Probes) -> None:
            layers = probes.size.block.layers
            found = [values[:, :, 0].detach() for values in probes.parameters]
            weights = found[0] * self.states.scale[layers, :, None]
            moved = (self.states.mean[layers, :, None].double() * weights.double()).sum(dim=1, keepdim=True)
            found[:2] = weights, (found[1] - moved).float()
            if self.settings.regression:
                # A number is its mean plus its deviation times the last layer's output.
                mean, deviation = self.plan.target
                found[-2:] = found[-2] * deviation, (found[-1].double() * deviation + mean).float()
            parts.append([(own if index % 2 == 0 else own[:, 0]).cpu().numpy() for index, own in enumerate(found)])

        await self.steps.run(Step(step_tokens(0, 4 * one.size.values), partial(step, one)) for one in self._first())
        return await self.bulk.compute(lambda: tuple(map(np.concatenate, zip(*parts, strict=True))))

    def _mixing(self) -> NDArray[np.float64]:
        last = [one for one in self._trained if one.size.mix and one.size.block.layers.stop == one.size.states]
        found = []
        for probes in last:
            mixing, scale = (values.detach() for values in probes.parameters[:2])
            found.append(torch.cat([scale[-1], mixing_shares(mixing, probes.size.first_layer)[-1]])[..., 0])
        return torch.cat(found, dim=1).T.double().cpu().numpy()


def _gradient(probes: Probes) -> NDArray[np.float64] | None:
    return probes.gradient
