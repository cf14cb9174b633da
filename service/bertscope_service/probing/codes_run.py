"""Runs TrainCodes: the states of all pieces once, training, and the losses with codes in place of states, behind everybody's
interactive rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.analyses.positions import PositionKind, Where
from bertscope_service.analyses.site_changes import codes_change
from bertscope_service.analyses.training_pieces import PiecesPlan
from bertscope_service.encoders.base import ChangesSites, Encoder
from bertscope_service.encoders.sites import Change, Codes, Site
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import slices
from bertscope_service.probing.codes import BATCH, CodesSize, CodesTraining
from bertscope_service.probing.skeleton import NOT_FINITE, TRAINING, Training
from bertscope_service.probing.steps import Step

LOSSES = TRAINING + 1
"""The stage after training: texts run with codes in place of states."""


@dataclass(frozen=True, slots=True)
class CodesSettings:
    """How codes are trained; see bertscope.v1.TrainCodesRequest."""

    codes: int
    active: int
    rate: float
    epochs: int


@dataclass(frozen=True, slots=True, eq=False)
class TrainedCodes:
    """Sparse codes of states as they are: see bertscope.v1.CodesChange. encoder, decoder: float32 [codes, hidden]; biases:
    [codes]; threshold: that of all codes; mean: [hidden]."""

    encoder: NDArray[np.float32]
    biases: NDArray[np.float32]
    threshold: float
    decoder: NDArray[np.float32]
    mean: NDArray[np.float32]

    def reconstruction(self, layer: int, where: Where) -> Change:
        """Returns the change that puts the codes' sum in place of states."""
        thresholds = np.full_like(self.biases, self.threshold)
        codes = Codes.around(self.mean, self.encoder, self.biases, thresholds, self.decoder)
        return codes_change(layer, where, codes, self.mean, factor=1.0, replaced=True)


@dataclass(frozen=True, slots=True, eq=False)
class CodesOutcome:
    """The result of TrainCodes. losses: means over masked dev pieces, nats, of the model as it is, with codes, the mean, and
    zeros in place of states; None where they can't be had."""

    codes: TrainedCodes
    explained: float
    mean_active: float
    dead: int
    losses: tuple[float, float, float, float] | None


class CodesRun(Training[PiecesPlan, CodesSettings, CodesOutcome]):
    """One TrainCodes call. `weights`: whether the codes are asked for."""

    _training: CodesTraining

    def shape(self, encoder: Encoder) -> tuple[int, int, int]:
        return self.plan.pieces, 1, encoder.shape.hidden_size

    def size(self, encoder: Encoder) -> CodesSize:
        """Returns the size of the training."""
        return CodesSize(encoder.shape.hidden_size, self.settings.codes, self.settings.active, encoder.device)

    def needed_bytes(self, encoder: Encoder) -> int:
        return self.size(encoder).bytes

    async def train(self) -> CodesOutcome:
        await self.standardise(self.plan.train.pieces, self._centre)
        size = self.size(self.encoder)
        await self._learn(size)
        explained, active, dead = await self._measure()
        codes = await self.steps.result(size.update_tokens, self._read)
        return CodesOutcome(codes, explained, active, dead, await self._losses(codes))

    def _centre(self, train: int) -> None:
        """Reads states around the mean of those to train on, in units of the distance from it."""
        states = self.states
        states.standardise(train)
        distance = torch.where(states.scale > 0, 1 / states.scale.double().square(), 0).sum().sqrt().clamp(min=1e-12)
        states.scale = torch.full_like(states.scale, float(1 / distance))

    async def _learn(self, size: CodesSize) -> None:
        pieces, epochs, seed = self.plan.train.pieces, self.settings.epochs, self.plan.query.seed
        generator = np.random.default_rng([seed, 2])
        steps = epochs * math.ceil(pieces / BATCH)
        make = partial(CodesTraining, size, self.settings.rate, steps, seed)
        self._training = await self.steps.result(size.update_tokens, make)
        for epoch in range(epochs):
            self.tell(TRAINING, epoch, epochs)
            order = torch.from_numpy(generator.permutation(pieces))
            await self.steps.run(step for batch in order.split(BATCH) for step in self._steps(batch))
        self.tell(TRAINING, epochs, epochs)

    def _steps(self, batch: torch.Tensor) -> Iterable[Step]:
        size = self._training.size
        for part in size.parts(batch):
            yield Step(5 * size.part_tokens, partial(self._accumulate, part, len(batch)))
        yield Step(size.update_tokens, self._training.update)

    def _accumulate(self, part: torch.Tensor, pieces: int) -> None:
        self._training.accumulate(self.states.read(part)[:, 0], pieces)

    async def _measure(self) -> tuple[float, float, int]:
        """Sets the threshold. Returns the share of variance explained and the mean number of active codes, over the dev pieces,
        and the number of codes that no piece to train on activates."""
        training, train, device = self._training, self.plan.train.pieces, self.encoder.device
        least = list[torch.Tensor]()
        used = torch.zeros(training.size.codes, dtype=torch.bool, device=device)
        sums = torch.zeros(3, dtype=torch.float64, device=device)

        def compete(states: torch.Tensor) -> None:
            least.append(training.least(states))

        def threshold() -> None:
            found = torch.stack(least)
            training.threshold = float(found[found.isfinite()].mean().nan_to_num())

        def use(states: torch.Tensor) -> None:
            used.logical_or_((training.activations(states) > 0).any(dim=0))

        def explain(states: torch.Tensor) -> None:
            found = training.activations(states)
            error = states - found @ training.decoder.detach()
            parts = (error.square().sum(), states.square().sum(), (found > 0).sum())
            sums.add_(torch.stack([part.double() for part in parts]))

        await self._pass(slice(0, train), compete)
        await self.steps.result(1, threshold)
        await self._pass(slice(0, train), use)
        await self._pass(slice(train, self.plan.pieces), explain)
        (error, whole, active), alive = await self.steps.result(1, lambda: (sums.tolist(), int(used.sum())))
        if not math.isfinite(error):
            raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
        explained = 1 - error / whole if whole else 0.0
        return explained, active / self.plan.dev.pieces, training.size.codes - alive

    async def _pass(self, chosen: slice, work: Callable[[torch.Tensor], None]) -> None:
        """Does some work with the states of a part, in steps."""
        size = self._training.size

        def step(part: slice) -> None:
            with torch.no_grad():
                work(self.states.read(part)[:, 0])

        await self.steps.run(Step(2 * size.part_tokens, partial(step, part)) for part in slices(chosen, size.part))

    def _read(self) -> TrainedCodes:
        """Returns the codes for states as they are: z and the threshold are multiplied by the distance of states."""
        training, states = self._training, self.states
        distance = float(1 / states.scale[0, 0])
        encoder, biases, decoder = (
            values.detach().float().cpu().numpy() for values in (training.encoder, training.biases, training.decoder)
        )
        mean = states.mean[0].float().cpu().numpy()
        return TrainedCodes(encoder, (biases * distance).astype(np.float32), training.threshold * distance, decoder, mean)

    async def _losses(self, codes: TrainedCodes) -> tuple[float, float, float, float] | None:
        """Returns the losses at the masked dev pieces; None if there are none, or none can be had."""
        if not self._has_losses:
            return None
        layer, where = self.plan.query.layers[0], Where(PositionKind.NOT_SPECIAL, self.plan.tokenizer, "layer")
        changes: list[tuple[Change, ...]] = [
            (),
            (codes.reconstruction(layer, where),),
            (Change(Site.STATE, layer, where, keep=0.0, add=codes.mean),),
            (Change(Site.STATE, layer, where, keep=0.0),),
        ]
        edits = [self.edits(*each_) for each_ in changes]
        part = self.plan.dev
        asked = [
            (sequence, MaskObserver(places, 0, ids[:, None]))
            for (sequence, _), (places, ids) in zip(part.rows, part.hidden, strict=True)
            if places
        ]
        rows = [(sequence, observer, number) for number in range(len(edits)) for sequence, observer in asked]
        sums = np.zeros(len(edits))

        def made(index: int) -> Row:
            sequence, observer, number = rows[index]
            return Row(self.encoder, sequence, observer, edits[number])

        async with aclosing(self.bulk.results([len(row[0]) for row in rows], made)) as results:
            done = 0
            async for found in results:
                sums[rows[done][2]] -= found.asked_logs.sum(dtype=np.float64)
                done += 1
                self.tell(LOSSES, done, len(rows))
        pieces = sum(len(places) for places, _ in part.hidden)
        if not pieces:
            return None
        as_is, coded, mean, zero = (sums / pieces).tolist()
        return as_is, coded, mean, zero

    @property
    def _has_losses(self) -> bool:
        """True if the model predicts masked pieces, and its states can be changed before the layer."""
        encoder, layer = self.encoder, self.plan.query.layers[0]
        last = encoder.shape.layers - 1
        changes = isinstance(encoder, ChangesSites) and not encoder.site_refusal(Site.STATE, min(layer, last))
        return changes and encoder.capabilities.masked_lm
