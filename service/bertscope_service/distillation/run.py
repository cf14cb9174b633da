"""Runs a distillation behind everybody's interactive rows: scores, epochs of updates, and what it goes on from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np
import torch

from bertscope_service.distillation.losses import Counts
from bertscope_service.distillation.recovery import Recovery, recoveries
from bertscope_service.distillation.rows import DEV, TEST, TRAIN, DistillationTexts, Drawn
from bertscope_service.distillation.saved import Position, SavedTraining
from bertscope_service.distillation.settings import DistillationSettings
from bertscope_service.distillation.size import DistillationSize
from bertscope_service.distillation.training import Scores, Training, evaluate
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.fake_int8 import round_as_integers
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.errors import FailedPrecondition
from bertscope_service.groups import within
from bertscope_service.models.own_thread import in_own_thread
from bertscope_service.probing.blocks import step_tokens
from bertscope_service.probing.steps import Step, StepRunner

SAVE_SECONDS = 60.0
"""The file that training goes on from is written this often."""


@dataclass(frozen=True, slots=True)
class DistillationProgress:
    """`done` of `total` training texts were seen; see bertscope.v1.DistillationProgress."""

    stage: str
    done: int = 0
    total: int = 0
    loss: float = 0.0
    best: float = 0.0
    resumed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Distilled:
    """The result: scores of the teacher, the untrained and the trained student on each test text, and what came back of the
    untrained one's loss; the weights of the trained one's checkpoint, by name, on the host; and where training ended."""

    teacher: Scores
    untrained: Scores
    student: Scores
    recoveries: Sequence[Recovery]
    weights: Mapping[str, torch.Tensor]
    position: Position
    resumed: bool


@dataclass(slots=True, eq=False)
class Distillation:
    """One DistillModel call after its student was made. `report` is told the progress."""

    teacher: TorchEncoder
    student: TorchEncoder
    texts: DistillationTexts
    settings: DistillationSettings
    bulk: BulkRunner
    saved: SavedTraining
    report: Callable[[DistillationProgress], None]
    stored: torch.dtype = torch.float32
    """The number format of the trained student's checkpoint: scores are those of what is stored."""
    resumed: bool = False
    _position: Position = field(default_factory=Position)
    _training: Training = field(init=False)
    _size: DistillationSize = field(init=False)
    _steps: StepRunner = field(init=False)

    def __post_init__(self) -> None:
        self._size = DistillationSize.of(self.teacher, self.student)
        self._steps = StepRunner(self.teacher, self.bulk)

    async def run(self) -> Distilled:
        """Trains the student; its model has the best weights in the end.

        Raises FailedPrecondition for a loss that is not finite, for a full disk, and for a folder of another training.
        """
        began, kept = time.monotonic(), await in_own_thread(self.saved.read)
        dev = await self.bulk.compute(partial(self.texts.held_out, DEV))
        test = await self.bulk.compute(partial(self.texts.held_out, TEST))
        await self._step(self._prepare)
        teacher, untrained = await self._evaluate([self.teacher, self.student], test)
        if kept is None:
            self._position.losses.append(await self._dev_loss(dev))
        else:
            self._position, self.resumed = kept[0], True
            await self._step(partial(self._training.restore, kept[1]))
            kept = None
        began -= self._position.seconds
        await self._train(dev, began)
        weights = await self._steps.result(1, partial(self._training.use_best, self.stored))
        (_, student) = await self._evaluate([self.teacher, self.student], test)
        back = await self.bulk.compute(partial(recoveries, teacher, untrained, student))
        self._position.seconds = time.monotonic() - began
        return Distilled(teacher, untrained, student, back, weights, self._position, self.resumed)

    def _prepare(self) -> None:
        if self.settings.integers:
            round_as_integers(self.student.architecture.model, self.student.architecture.reads_weights)
        self._training = Training(self.student, self.teacher, self.settings)

    async def _train(self, dev: Sequence[Drawn], began: float) -> None:
        position, settings = self._position, self.settings
        total = settings.epochs * len(self.texts.parts[TRAIN].examples)
        wrote = time.monotonic()
        self._tell(total)
        for epoch in range(position.epoch, settings.epochs):
            batches = islice(self.texts.batches(epoch, settings.batch_tokens), position.batch, None)
            # Read one by one: masks are drawn, off the loop, when an update needs them.
            while (batch := await self.bulk.compute(partial(next, batches, None))) is not None:
                await self._steps.run(self._update(batch, position.seen / total))
                before = position.seen
                position.epoch, position.batch = epoch, position.batch + 1
                position.seen, position.updates = before + len(batch), position.updates + 1
                self._check()
                judged = position.seen * settings.evaluations // total > before * settings.evaluations // total
                if judged:
                    await self._judge(dev)
                if judged or time.monotonic() - wrote >= SAVE_SECONDS:
                    position.seconds = time.monotonic() - began
                    await self._write()
                    wrote = time.monotonic()
                self._tell(total)
            position.epoch, position.batch = epoch + 1, 0

    def _update(self, batch: Sequence[Drawn], done: float) -> Iterator[Step]:
        """Yields the steps of an update: gradients of a few texts each, then groups of parameters."""
        training, rows = self._training, sorted(batch, key=len)
        gold = np.concatenate([row.gold for row in rows])
        counts = Counts(len(gold), int((gold >= 0).sum()), sum(map(len, rows)))
        size = self._size
        for part in within([size.products(row) for row in rows], size.limit):
            products = sum(map(size.products, rows[part]))
            yield Step(step_tokens(products), partial(training.accumulate, rows[part], counts))
        values = sum(parameter.numel() for parameter in training.parameters.values())
        yield Step(step_tokens(0, values), training.clip)
        for group in training.groups:
            yield Step(step_tokens(0, 4 * values // len(training.groups)), partial(training.update, group, done))

    def _check(self) -> None:
        if not all(np.isfinite(value) for value in self._training.losses.values()):
            message = f"the student's loss is not finite at update {self._position.updates}; use a lower learning rate"
            raise FailedPrecondition(message, "LOSS_NOT_FINITE")

    async def _judge(self, dev: Sequence[Drawn]) -> None:
        """Evaluates the student on dev, and keeps its weights if they are the best so far."""
        loss = await self._dev_loss(dev)
        if loss < min(self._position.losses):
            await self._step(self._training.keep_best)
            self._position.best_update = self._position.updates
        self._position.losses.append(loss)

    async def _dev_loss(self, dev: Sequence[Drawn]) -> float:
        """Returns the loss on dev, nats a prediction: of the teacher's probabilities, or of gold answers if the student learns
        these and all are known."""
        known = self.settings.weights.hard > 0 and all((row.gold >= 0).all() for row in dev)
        *_, found = await self._evaluate([self.student] if known else [self.teacher, self.student], dev)
        loss = float((found.loss if known else found.divergence).sum() / found.predictions.sum())
        if not np.isfinite(loss):
            raise FailedPrecondition("scores on dev are not finite; use a lower learning rate", "LOSS_NOT_FINITE")
        return loss

    async def _evaluate(self, models: Sequence[TorchEncoder], rows: Sequence[Drawn]) -> list[Scores]:
        """Returns the scores of models on texts, in order."""
        parts: list[list[Scores]] = []

        def step(part: slice) -> None:
            parts.append(evaluate(models, rows[part]))

        def steps() -> Iterator[Step]:
            for part in within([self._size.products(row) for row in rows], self._size.limit):
                yield Step(step_tokens(sum(map(self._size.products, rows[part])) // 2), partial(step, part))

        await self._steps.run(steps())
        return [Scores.joined(own) for own in zip(*parts, strict=True)]

    async def _write(self) -> None:
        tensors: dict[str, torch.Tensor] = await self._steps.result(1, self._training.saved)
        await in_own_thread(partial(self.saved.write, self._position, tensors))

    async def _step(self, work: Callable[[], None]) -> None:
        values = sum(parameter.numel() for parameter in self.student.architecture.model.parameters())
        await self._steps.run([Step(step_tokens(0, values), work)])

    def _tell(self, total: int) -> None:
        weights = self.settings.weights
        loss = sum(getattr(weights, name) * value for name, value in self._training.losses.items())
        best = min(self._position.losses)
        self.report(DistillationProgress("training", self._position.seen, total, loss, best, self.resumed))
