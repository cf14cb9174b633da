"""Models to run jobs on, by us and by transformers, and objectives without an analysis."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from bertscope_service.ablation.evaluation import Change, Evaluation
from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import GoldObserver, GoldScores, LabelObserver, LossObserver
from bertscope_service.encoders.base import HeadSet
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.observability.metrics import Metrics
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from tests.support.reference import Edit, HeadEdits, Reference, Subject
from tests.support.tiny import SENTENCES

PLENTY = 1 << 30
SCALE = -1.5
"""What Mode.SCALE scales by in these tests."""


def edit(mode: Mode, mean: NDArray[np.float32]) -> Edit:
    """A mode as an edit of a head with this mean context."""
    edits = {Mode.ZERO: Edit(), Mode.UNIFORM: Edit(uniform=1.0), Mode.SCALE: Edit(keep=SCALE), Mode.MEAN: Edit(constant=mean)}
    return edits[mode]


@dataclass
class Hosted(Subject):
    """One architecture's checkpoint, a masked-LM or a classifier, with packed weights; transformers computes in float64."""

    classifies: bool = False

    @cached_property
    def encoder(self) -> TorchEncoder:
        return self.load(pack=True)

    @cached_property
    def reference(self) -> Reference:
        kind = AutoModelForSequenceClassification if self.classifies else AutoModelForMaskedLM
        return Reference(self.folder, torch.float64, kind)

    @cached_property
    def sequences(self) -> list[TokenSequence]:
        """Texts and a pair of mixed length, one as long as the model reads, and one of a single token."""
        every = super().sequences
        return [every[0], every[-2], every[3], every[len(SENTENCES)], every[0], every[-1]]

    @cached_property
    def means(self) -> NDArray[np.float32]:
        """Mean contexts over other texts: [layers, heads, head_size]."""
        return self.reference.mean_contexts(self.references)

    @cached_property
    def references(self) -> list[TokenSequence]:
        return [self.tokenizer.encode(text).sequence for text in SENTENCES[4:9]]

    def edits(self, heads: HeadSet, mode: Mode) -> HeadEdits:
        return {(layer, head): edit(mode, self.means[layer, head]) for layer, numbers in heads for head in numbers}

    def change(self, mode: Mode) -> Change:
        return Change(mode, SCALE if mode is Mode.SCALE else 1.0, self.means)

    @property
    def untouched(self) -> Interventions:
        return Interventions.none(self.encoder.shape.layers, self.encoder.shape.heads)

    def sets(self) -> tuple[HeadSet, ...]:
        """Single heads and whole layers, first, middle and last; sets over several layers; all heads."""
        layers, heads = self.encoder.shape.layers, self.encoder.shape.heads
        every = tuple(range(heads))
        last = layers - 1
        single: tuple[HeadSet, ...] = tuple(((layer, ((2 * layer + 1) % heads,)),) for layer in range(layers))
        return (
            ((last, (0, 2)),),
            *single,
            ((0, every),),
            ((last, every),),
            ((0, (1,)), (last, (3,))),
            ((1, (0, 3)), (2, every)),
            tuple((layer, every) for layer in range(layers)),
            ((1, (0,)),),
        )


@asynccontextmanager
async def running(batch_tokens: int = 1024) -> AsyncIterator[Engine]:
    engine = Engine(lambda _: Limits(batch_tokens, queue_tokens=100_000, threads=1), Metrics())
    try:
        yield engine
    finally:
        await engine.close()


class Measured:
    """What the objectives here share: an item is a row."""

    skipped = truncated = pieces = 0
    losses: Sequence[LossObserver] = ()

    def __init__(self, sequences: Sequence[TokenSequence]) -> None:
        self.sequences = sequences
        self.items = len(sequences)

    def positions(self, row: int) -> tuple[int, ...]:
        """One to three places of a row, one of them twice where there are three."""
        last = len(self.sequences[row]) - 1
        return [(last // 2,), (0, last), (last, last // 3, last)][row % 3]


class GoldObjective(Measured):
    """The mean loss at some places of each row, where one or two pieces are right; and 1 if it is small."""

    metrics = (Metric.LOSS, Metric.ACCURACY)
    median: float | None = None

    def __init__(self, sequences: Sequence[TokenSequence], kind: type[GoldObserver] = GoldObserver) -> None:
        super().__init__(sequences)
        self.observers: Sequence[GoldObserver] = [kind(self.positions(row), self.golds(row)) for row in range(self.items)]
        self.losses = self.observers

    def golds(self, row: int) -> NDArray[np.int64]:
        """[places, 1 or 2], ordinary pieces."""
        return 40 + np.arange(len(self.positions(row)) * (1 + row % 2)).reshape(-1, 1 + row % 2) * 7 + row

    def later_observers(self, untouched: Sequence[GoldScores]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
        return self.judged([-scores.logs.max(axis=1).mean(dtype=np.float64) for scores in seen])

    def expected(self, hosted: Hosted, edits: HeadEdits) -> NDArray[np.float64]:
        """The same from transformers, one text at a time."""
        return self.judged(
            [float(self.loss(row, hosted.reference.scores(self.sequences[row], edits))) for row in range(self.items)]
        )

    def loss(self, row: int, scores: torch.Tensor) -> torch.Tensor:
        """Of one row, from scores [length, vocabulary]."""
        logs = scores.log_softmax(dim=-1)
        best = [
            torch.stack([logs[place, gold] for gold in golds]).max()
            for place, golds in zip(self.positions(row), self.golds(row).tolist(), strict=True)
        ]
        return -torch.stack(best).mean()

    def judged(self, losses: list[float]) -> NDArray[np.float64]:
        values = np.array(losses)
        return np.stack([values, values < 6.0])


class LabelObjective(Measured):
    """The loss of a label."""

    def __init__(self, sequences: Sequence[TokenSequence]) -> None:
        super().__init__(sequences)
        self.losses = [LabelObserver(row % 3) for row in range(self.items)]

    def loss(self, row: int, scores: torch.Tensor) -> torch.Tensor:
        """Of one row, from scores [labels]."""
        return -scores.log_softmax(dim=-1)[row % 3]


@dataclass
class Run:
    """A sweep through an engine of its own."""

    hosted: Hosted
    objective: Any
    mode: Mode
    reuse: bool = True
    memory_bytes: int = PLENTY
    batch_tokens: int = 1024
    base: Interventions | None = None
    evaluation: Evaluation = field(init=False)

    def start(self, engine: Engine) -> Evaluation:
        encoder = self.hosted.encoder
        bulk = BulkRunner(engine, encoder, "sweeper", None)
        change = self.hosted.change(self.mode)
        self.evaluation = Evaluation(encoder, self.objective, bulk, change, self.memory_bytes, self.reuse)
        return self.evaluation

    async def values(self, engine: Engine, sets: Iterable[HeadSet]) -> dict[HeadSet, NDArray[np.float64]]:
        """The values of each set; under () those of the baseline."""
        evaluation, base = self.start(engine), self.base or self.hosted.untouched
        found: dict[HeadSet, NDArray[np.float64]] = {(): await evaluation.baseline(base)}
        async for heads, values in evaluation.changed(base, sets):
            assert heads not in found
            found[heads] = values
        return found


def needed_bytes(encoder: TorchEncoder, sequences: Sequence[TokenSequence]) -> list[int]:
    """What the state of each row before a layer takes."""
    sizes = []
    with torch.inference_mode():
        for sequence in sequences:
            state = encoder.begin([sequence])
            encoder.attend(state)
            sizes.append(state.bytes)
    return sizes
