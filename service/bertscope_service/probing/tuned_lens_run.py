"""Runs TrainLens: the states of all pieces once, then epochs of training, behind everybody's interactive rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.lens import logits_of
from bertscope_service.analyses.training_pieces import PiecesPlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import decomposition_of
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import step_tokens
from bertscope_service.probing.skeleton import NOT_FINITE, TRAINING, Training
from bertscope_service.probing.steps import Step
from bertscope_service.probing.tuned_lens import BATCH, COPIES, Head, LensFits, LensSize, TranslatorTraining


@dataclass(frozen=True, slots=True)
class TunedLensSettings:
    """How maps are trained; see bertscope.v1.TrainLensRequest."""

    normalise: bool
    rate: float
    max_epochs: int
    patience: int


@dataclass(frozen=True, slots=True, eq=False)
class TunedLensTrained:
    """The result of TrainLens. steps: int64 [layers], those that made the kept maps. maps: float32 [layers, hidden + 1,
    hidden], None unless asked for."""

    before: LensFits
    after: LensFits
    steps: NDArray[np.int64]
    maps: NDArray[np.float32] | None
    epochs: int


class TunedLensTraining(Training[PiecesPlan, TunedLensSettings, TunedLensTrained]):
    """One TrainLens call. `weights`: whether the maps are asked for."""

    _maps: TranslatorTraining

    def shape(self, encoder: Encoder) -> tuple[int, int, int]:
        return self.plan.pieces, len(self.plan.query.layers), encoder.shape.hidden_size

    def size(self, encoder: Encoder) -> LensSize:
        """Returns the size of the training."""
        shape = encoder.shape
        return LensSize(len(self.plan.query.layers) - 1, shape.hidden_size, shape.vocabulary_size, encoder.device)

    def needed_bytes(self, encoder: Encoder) -> int:
        return self.size(encoder).bytes

    async def train(self) -> TunedLensTrained:
        size = self.size(self.encoder)
        self.states.scale = torch.ones_like(self.states.scale)  # The head reads states as they are.
        cost = step_tokens(0, COPIES * size.layers * size.hidden**2)
        await self.steps.run([Step(cost, partial(self._prepare, size))])
        await self._learn()
        maps, before = self._maps, self._maps.before
        if before is None:
            raise RuntimeError("maps were not judged")
        found = await self.steps.result(1, lambda: maps.best.cpu().numpy()) if self.weights else None
        return TunedLensTrained(before, maps.after, maps.best_steps, found, maps.epoch)

    def _prepare(self, size: LensSize) -> None:
        head, settings = head_of(self.encoder, self.settings.normalise), self.settings
        self._maps = TranslatorTraining(size, head, self.encoder.device, settings.rate, settings.patience)

    async def _learn(self) -> None:
        maps, train, most = self._maps, self.plan.train.pieces, self.settings.max_epochs
        generator = np.random.default_rng([self.plan.query.seed, 2])
        more = await self._judge()
        while True:
            best = float(maps.after.divergence.mean())
            self.tell(TRAINING, maps.epoch, most, best)
            if not more or maps.epoch >= most:
                break
            order = torch.from_numpy(generator.permutation(train))
            await self.steps.run(step for batch in order.split(BATCH) for step in self._steps(batch))
            more = await self._judge()

    async def _judge(self) -> bool:
        """Judges the maps. Returns whether any may still get better."""
        judge = partial(self._maps.judge, await self._fits())
        return await self.steps.result(step_tokens(0, 2 * self._maps.maps.numel()), judge)

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
            return self.states.read(part)
        return torch.cat((self.states.read(part, layers), self.states.read(part, slice(-1, None))), dim=1)

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
        await self.steps.run(Step(size.part_tokens, partial(step, part, layers)) for part, layers in size.parts(pieces))

        def read() -> LensFits:
            return LensFits((sums / self.plan.dev.pieces).clamp(min=0).cpu().numpy(), agreeing.cpu().numpy())

        fits = await self.steps.result(1, read)
        if maps.before is None and not np.isfinite(fits.divergence).all():
            raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
        return fits


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
