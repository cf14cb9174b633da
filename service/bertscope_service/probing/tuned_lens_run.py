"""Runs TrainLens: the states of all pieces once, then epochs of training, behind everybody's interactive rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.lens import logits_of
from bertscope_service.analyses.training_pieces import PiecesPlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import decomposition_of
from bertscope_service.encoders.edits import Edits
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import step_tokens
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.tuned_lens import BATCH, COPIES, Head, LensFits, LensSize, TranslatorTraining
from bertscope_service.probing.work import NOT_FINITE, Step, bring, fill, run_step, run_steps


@dataclass(frozen=True, slots=True)
class TunedLensSettings:
    """How maps are trained; see bertscope.v1.TrainLensRequest."""

    normalise: bool
    rate: float
    max_epochs: int
    patience: int


@dataclass(frozen=True, slots=True)
class TunedLensProgress:
    """`done` of `total` texts were run, or epochs trained (`training`); the mean of the lowest divergences so far."""

    training: bool
    done: int
    total: int
    divergence: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class TunedLensTrained:
    """The result of TrainLens. steps: int64 [layers], those that made the kept maps. maps: float32 [layers, hidden + 1,
    hidden], None unless asked for."""

    before: LensFits
    after: LensFits
    steps: NDArray[np.int64]
    maps: NDArray[np.float32] | None
    epochs: int
    on_disk: bool
    seconds: float


@dataclass(slots=True, eq=False)
class TunedLensTraining:
    """One TrainLens call: its plan, and how it is run. `report` is told the progress."""

    encoder: Encoder
    plan: PiecesPlan
    settings: TunedLensSettings
    bulk: BulkRunner
    edits: Edits | None
    report: Callable[[TunedLensProgress], None]
    _states: SpanStates = field(init=False)
    _maps: TranslatorTraining = field(init=False)

    async def run(self, *, on_disk: bool, weights: bool) -> TunedLensTrained:
        """Computes states and trains maps. Raises FailedPrecondition if states or scores are not finite, or for a full disk."""
        began, plan, device = time.monotonic(), self.plan, self.encoder.device
        size = lens_size(plan, self.encoder)
        shape = (plan.pieces, size.layers + 1, size.hidden)
        self._states = await self.bulk.compute(partial(SpanStates, shape, device, on_disk=on_disk))
        self._states.scale = torch.ones_like(self._states.scale)  # The head reads states as they are.
        rows = [row for part in (plan.train, plan.dev) for row in part.rows]

        def report(done: int) -> None:
            self.report(TunedLensProgress(training=False, done=done, total=len(rows)))

        await fill(self._states.add, self.bulk, self.encoder, rows, self.edits, report)
        await bring(self.bulk, self.encoder, self._states)
        cost = step_tokens(0, COPIES * size.layers * size.hidden**2)
        await self._work([Step(cost, partial(self._prepare, size))])
        await self._train()
        maps, before = self._maps, self._maps.before
        if before is None:
            raise RuntimeError("maps were not judged")
        found = await run_step(self.bulk, self.encoder, 1, lambda: maps.best.cpu().numpy()) if weights else None
        return TunedLensTrained(before, maps.after, maps.best_steps, found, maps.epoch, on_disk, time.monotonic() - began)

    def _prepare(self, size: LensSize) -> None:
        head, settings = head_of(self.encoder, self.settings.normalise), self.settings
        self._maps = TranslatorTraining(size, head, self.encoder.device, settings.rate, settings.patience)

    async def _train(self) -> None:
        maps, train, most = self._maps, self.plan.train.pieces, self.settings.max_epochs
        generator = np.random.default_rng([self.plan.query.seed, 2])
        more = await self._judge()
        while True:
            best = float(maps.after.divergence.mean())
            self.report(TunedLensProgress(training=True, done=maps.epoch, total=most, divergence=best))
            if not more or maps.epoch >= most:
                break
            order = torch.from_numpy(generator.permutation(train))
            await self._work(step for batch in order.split(BATCH) for step in self._steps(batch))
            more = await self._judge()

    async def _judge(self) -> bool:
        """Judges the maps. Returns whether any may still get better."""
        judge = partial(self._maps.judge, await self._fits())
        return await run_step(self.bulk, self.encoder, step_tokens(0, 2 * self._maps.maps.numel()), judge)

    def _steps(self, batch: torch.Tensor) -> Iterator[Step]:
        size = self._maps.size
        for part, layers in size.parts(batch):
            yield Step(2 * size.part_tokens, partial(self._accumulate, part, layers, len(batch)))
        for layers in size.updates():
            yield Step(step_tokens(0, COPIES * size.limits.updated_values), partial(self._maps.update, layers))

    def _accumulate(self, part: torch.Tensor, layers: slice, pieces: int) -> None:
        self._maps.accumulate(self._read(part, layers), layers, pieces)

    def _read(self, part: torch.Tensor, layers: slice) -> torch.Tensor:
        """Returns the states of some pieces in some layers, and in the last."""
        if layers.stop - layers.start == self._maps.size.layers:
            return self._states.read(part)
        return torch.cat((self._states.read(part, layers), self._states.read(part, slice(-1, None))), dim=1)

    async def _fits(self) -> LensFits:
        """Returns how layers are read on the dev pieces. Raises FailedPrecondition if a divergence is not finite."""
        maps, size, device = self._maps, self._maps.size, self.encoder.device
        sums = torch.zeros(size.layers, dtype=torch.float64, device=device)
        agreeing = torch.zeros(size.layers, dtype=torch.int64, device=device)

        def step(part: torch.Tensor, layers: slice) -> None:
            own, equal = maps.evaluate(self._read(part, layers), layers)
            sums[layers] += own
            agreeing[layers] += equal

        pieces = torch.arange(self.plan.train.pieces, self.plan.pieces, dtype=torch.int64, device="cpu")
        await self._work(Step(size.part_tokens, partial(step, part, layers)) for part, layers in size.parts(pieces))

        def read() -> LensFits:
            return LensFits((sums / self.plan.dev.pieces).clamp(min=0).cpu().numpy(), agreeing.cpu().numpy())

        fits = await run_step(self.bulk, self.encoder, 1, read)
        if maps.before is None and not np.isfinite(fits.divergence).all():
            raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
        return fits

    async def _work(self, steps: Iterable[Step]) -> None:
        await run_steps(self.bulk, self.encoder, steps)


def head_of(encoder: Encoder, normalise: bool) -> Head:
    """Returns the masked-LM head; states before the last get the model's last normalisation first if `normalise`."""
    decomposition = decomposition_of(encoder)
    if normalise and decomposition is None:
        raise ValueError(f"{encoder.runtime} has no last normalisation")

    def head(hidden: torch.Tensor, last: bool) -> torch.Tensor:
        states = hidden.to(getattr(encoder, "dtype", torch.float32))
        if normalise and not last and decomposition is not None:
            states = decomposition.normalise_last(states)
        return logits_of(encoder, states)

    return head


def lens_size(plan: PiecesPlan, encoder: Encoder) -> LensSize:
    """Returns the size of the training of a plan."""
    shape = encoder.shape
    return LensSize(len(plan.query.layers) - 1, shape.hidden_size, shape.vocabulary_size, encoder.device)
