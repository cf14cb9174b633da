"""Runs TrainCodes: the states of all pieces once, training, and the losses with codes in place of states, behind everybody's
interactive rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.analyses.positions import PositionKind, Where
from bertscope_service.analyses.site_changes import codes_change
from bertscope_service.analyses.training_pieces import PiecesPlan
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sites import Change, Codes, Site
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import slices
from bertscope_service.probing.codes import BATCH, CodesSize, CodesTraining
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.work import NOT_FINITE, Step, bring, each, fill, run_step, run_steps

EditsWith = Callable[..., Edits | None]
"""Returns the edits of a call with further changes, after its own."""


@dataclass(frozen=True, slots=True)
class CodesSettings:
    """How codes are trained; see bertscope.v1.TrainCodesRequest."""

    codes: int
    active: int
    rate: float
    epochs: int


@dataclass(frozen=True, slots=True)
class CodesProgress:
    """`done` of `total` texts were run, or epochs trained (`training`); `part` counts the stages from 0."""

    part: int
    done: int
    total: int

    @property
    def training(self) -> bool:
        """True while codes train."""
        return self.part == 1


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
    on_disk: bool
    seconds: float


@dataclass(slots=True, eq=False)
class CodesRun:
    """One TrainCodes call: its plan, and how it is run. `losses`: whether they can be had. `report` is told the progress."""

    encoder: Encoder
    tokenizer: TextTokenizer
    plan: PiecesPlan
    settings: CodesSettings
    losses: bool
    bulk: BulkRunner
    edits: EditsWith
    report: Callable[[CodesProgress], None]
    _states: SpanStates = field(init=False)
    _training: CodesTraining = field(init=False)

    async def run(self, *, on_disk: bool) -> CodesOutcome:
        """Computes states, trains codes and measures them. Raises FailedPrecondition if states are not finite, or for a full
        disk."""
        began = time.monotonic()
        size = codes_size(self.encoder, self.settings)
        await self._fill(size, on_disk=on_disk)
        await self._train(size)
        explained, active, dead = await self._measure()
        codes = await run_step(self.bulk, self.encoder, size.update_tokens, self._read)
        losses = await self._losses(codes) if self.losses else None
        return CodesOutcome(codes, explained, active, dead, losses, on_disk, time.monotonic() - began)

    async def _fill(self, size: CodesSize, *, on_disk: bool) -> None:
        """Computes the states, which are read around the mean of those to train on, in units of the distance from it."""
        plan, device = self.plan, self.encoder.device
        rows = [row for part in (plan.train, plan.dev) for row in part.rows]
        states = await self.bulk.compute(partial(SpanStates, (plan.pieces, 1, size.hidden), device, on_disk=on_disk))
        self._states = states
        report = partial(self._report, 0, total=len(rows))
        await fill(states.add, self.bulk, self.encoder, rows, self.edits(), report)
        await bring(self.bulk, self.encoder, states)
        await each(self.bulk, self.encoder, states, slice(0, plan.train.pieces), states.measure)

        def centre() -> None:
            states.standardise(plan.train.pieces)
            distance = torch.where(states.scale > 0, 1 / states.scale.double().square(), 0).sum().sqrt().clamp(min=1e-12)
            states.scale = torch.full_like(states.scale, float(1 / distance))

        await run_step(self.bulk, self.encoder, 1, centre)

    async def _train(self, size: CodesSize) -> None:
        pieces, epochs, seed = self.plan.train.pieces, self.settings.epochs, self.plan.query.seed
        generator = np.random.default_rng([seed, 2])
        steps = epochs * math.ceil(pieces / BATCH)
        make = partial(CodesTraining, size, self.settings.rate, steps, seed)
        self._training = await run_step(self.bulk, self.encoder, size.update_tokens, make)
        for epoch in range(epochs):
            self._report(1, epoch, epochs)
            order = torch.from_numpy(generator.permutation(pieces))
            await run_steps(self.bulk, self.encoder, (step for batch in order.split(BATCH) for step in self._steps(batch)))
        self._report(1, epochs, epochs)

    def _steps(self, batch: torch.Tensor) -> Iterable[Step]:
        size = self._training.size
        for part in size.parts(batch):
            yield Step(5 * size.part_tokens, partial(self._accumulate, part, len(batch)))
        yield Step(size.update_tokens, self._training.update)

    def _accumulate(self, part: torch.Tensor, pieces: int) -> None:
        self._training.accumulate(self._states.read(part)[:, 0], pieces)

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
        await run_step(self.bulk, self.encoder, 1, threshold)
        await self._pass(slice(0, train), use)
        await self._pass(slice(train, self.plan.pieces), explain)
        (error, whole, active), alive = await run_step(self.bulk, self.encoder, 1, lambda: (sums.tolist(), int(used.sum())))
        if not math.isfinite(error):
            raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
        explained = 1 - error / whole if whole else 0.0
        return explained, active / self.plan.dev.pieces, training.size.codes - alive

    async def _pass(self, chosen: slice, work: Callable[[torch.Tensor], None]) -> None:
        """Does some work with the states of a part, in steps."""
        size = self._training.size

        def step(part: slice) -> None:
            with torch.no_grad():
                work(self._states.read(part)[:, 0])

        steps = (Step(2 * size.part_tokens, partial(step, part)) for part in slices(chosen, size.part))
        await run_steps(self.bulk, self.encoder, steps)

    def _read(self) -> TrainedCodes:
        """Returns the codes for states as they are: z and the threshold are multiplied by the distance of states."""
        training, states = self._training, self._states
        distance = float(1 / states.scale[0, 0])
        encoder, biases, decoder = (
            values.detach().float().cpu().numpy() for values in (training.encoder, training.biases, training.decoder)
        )
        mean = states.mean[0].float().cpu().numpy()
        return TrainedCodes(encoder, (biases * distance).astype(np.float32), training.threshold * distance, decoder, mean)

    async def _losses(self, codes: TrainedCodes) -> tuple[float, float, float, float] | None:
        """Returns the losses at the masked dev pieces; None if there are none."""
        layer, where = self.plan.query.layers[0], Where(PositionKind.NOT_SPECIAL, self.tokenizer, "layer")
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
                self._report(2, done, len(rows))
        pieces = sum(len(places) for places, _ in part.hidden)
        if not pieces:
            return None
        as_is, coded, mean, zero = (sums / pieces).tolist()
        return as_is, coded, mean, zero

    def _report(self, part: int, done: int, total: int) -> None:
        self.report(CodesProgress(part, done, total))


def codes_size(encoder: Encoder, settings: CodesSettings) -> CodesSize:
    """Returns the size of a training."""
    return CodesSize(encoder.shape.hidden_size, settings.codes, settings.active, encoder.device)
