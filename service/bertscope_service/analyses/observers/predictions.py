"""Reads the predictions of a model's head: of pieces at masks, of labels, values and next sentences, and how far they moved. An
observer has a loss where its objective has one.

All of them run the last layer only at the positions they read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.reading import Reading, log_probabilities, ranks_of, rows_at_a_time, widen
from bertscope_service.encoders.base import Encoder, Relating
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


class LossObserver(Observer, Protocol):
    """An observer whose row has a loss."""

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        """Runs the remaining layers. Returns the loss of each row, nats, float32 [rows], differentiable."""


@dataclass(frozen=True, slots=True)
class GoldScores:
    """The scores of the gold pieces G at a row's masks P.

    logs: natural logarithms of probabilities over the whole vocabulary [P, G]. ranks: [P, G], 1 is the likeliest; 0 if not
    requested.
    """

    logs: NDArray[np.float32]
    ranks: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GoldObserver:
    """Reads the gold pieces, int64 [P, G], at some positions P of a row; `ranked` requests their ranks too.

    A mask with fewer than G gold pieces repeats one of them. The loss is the mean over the masks of -ln P of the likeliest
    one.
    """

    reads_places: ClassVar[bool] = False
    positions: tuple[int, ...]
    golds: NDArray[np.int64]
    ranked: bool = False

    @property
    def group(self) -> Hashable:
        return self.ranked

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        width = max(observer.golds.shape[1] for observer in observers)
        golds = np.concatenate([widen(observer.golds, width) for observer in observers])
        read = Reading(encoder, [observer.positions for observer in observers], golds)
        (placed,) = read.others
        read.advance(state, edits)
        parts = [_gold_scores(logits, placed[part], ranked=observers[0].ranked) for part, logits in read.logits(state)]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[GoldScores]:
            dealt = zip(*map(read.split, arrays), strict=True)
            widths = (observer.golds.shape[1] for observer in observers)
            return [GoldScores(logs[:, :size], ranks[:, :size]) for size, (logs, ranks) in zip(widths, dealt, strict=True)]

        return Readout(tuple(map(torch.cat, zip(*parts, strict=True))), deal)

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        width = max(observer.golds.shape[1] for observer in observers)
        # Repeating a gold changes no maximum; a column of zeros would.
        golds = np.concatenate([np.pad(p.golds, ((0, 0), (0, width - p.golds.shape[1])), mode="edge") for p in observers])
        counts = np.array([len(observer.positions) for observer in observers], dtype=np.float32)
        read = Reading(encoder, [observer.positions for observer in observers], golds, counts)
        placed, count = read.others
        read.advance(state, edits)
        logs = encoder.logits(state, read.rows, read.places).log_softmax(dim=-1).gather(1, placed).max(dim=1).values
        return torch.zeros_like(count).index_add(0, read.rows, -logs) / count


@dataclass(frozen=True, slots=True)
class LabelObserver(Observer):
    """Reads the scores of all labels before the softmax: float32 [labels]. `gold` is the right label, for the loss."""

    reads_places: ClassVar[bool] = False
    gold: int = 0

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        return Readout((sequence_scores(encoder, state, edits),), lambda arrays: list(arrays[0]))

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        (gold,) = place_arrays(encoder.device, np.array([observer.gold for observer in observers], dtype=np.int64))
        return torch.nn.functional.cross_entropy(sequence_scores(encoder, state, edits), gold, reduction="none")


@dataclass(frozen=True, slots=True)
class LabelSetObserver(Observer):
    """Reads the scores of all labels before the sigmoid: float32 [labels]. `golds` are the labels that hold, for the loss: the
    mean over all labels of -ln P of whether it holds, nats."""

    reads_places: ClassVar[bool] = False
    golds: tuple[int, ...] = ()

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        return Readout((sequence_scores(encoder, state, edits),), lambda arrays: list(arrays[0]))

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        held = np.zeros((len(observers), encoder.shape.sequence_scores), dtype=np.float32)
        for row, observer in enumerate(observers):
            held[row, list(observer.golds)] = 1.0
        (gold,) = place_arrays(encoder.device, held)
        scores = sequence_scores(encoder, state, edits)
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, gold, reduction="none").mean(dim=1)


@dataclass(frozen=True, slots=True)
class ValueObserver(Observer):
    """Reads the value of a regression head: float32 [1]. `gold` is the right one, for the loss: the squared difference."""

    reads_places: ClassVar[bool] = False
    gold: float = 0.0

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        return Readout((sequence_scores(encoder, state, edits),), lambda arrays: list(arrays[0]))

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        (gold,) = place_arrays(encoder.device, np.array([observer.gold for observer in observers], dtype=np.float32))
        return torch.nn.functional.mse_loss(sequence_scores(encoder, state, edits)[:, 0], gold, reduction="none")


def sequence_scores(encoder: Encoder, state: State, edits: BatchEdits | None) -> torch.Tensor:
    """Runs all layers and the sequence head: [rows, labels], or [rows, 1] of a regression head."""
    first = None
    if encoder.reads_first:
        first = torch.zeros((len(state.lengths), 1), dtype=torch.int64, device=encoder.device)
    encoder.advance(state, encoder.shape.layers, edits, only=first)
    return encoder.classify(state)


@dataclass(frozen=True, slots=True)
class NextSentenceObserver(Observer):
    """Reads the scores of "is next" and "is not next" before the softmax: float32 [2]."""

    reads_places: ClassVar[bool] = False

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        return Readout((next_sentence_scores(encoder, state, edits),), lambda arrays: list(arrays[0]))


def next_sentence_scores(encoder: Encoder, state: State, edits: BatchEdits | None) -> torch.Tensor:
    """Runs all layers and the next-sentence head: [rows, 2]."""
    if not isinstance(encoder, Relating):
        raise TypeError(f"{type(encoder).__name__} has no next-sentence head")
    first = torch.zeros((len(state.lengths), 1), dtype=torch.int64, device=encoder.device)
    encoder.advance(state, encoder.shape.layers, edits, only=first)
    return encoder.relate(state)


@dataclass(frozen=True, slots=True)
class LastStatesObserver(Observer):
    """Reads the last hidden states at some positions P: a tensor [P, hidden_size] that stays on the device."""

    positions: tuple[int, ...]

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        read = Reading(encoder, [observer.positions for observer in observers])
        read.advance(state, edits)
        parts = [part.clone() for part in state.hidden[read.rows, read.places].split(read.counts)]
        return Readout((), lambda _: list(parts))


@dataclass(frozen=True, slots=True, eq=False)
class PredictionsObserver(Observer):
    """Computes KL(untouched || changed) at some positions P, nats: float32 [P].

    `untouched` is the result of a LastStatesObserver there: it takes a few kilobytes, distributions over the vocabulary would
    take hundreds.
    """

    positions: tuple[int, ...]
    untouched: torch.Tensor

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        read = Reading(encoder, [observer.positions for observer in observers])
        read.advance(state, edits)
        hidden = torch.cat([observer.untouched for observer in observers])
        before = State(hidden[None], (len(hidden),), None, encoder.shape.layers)
        places = torch.arange(len(hidden), dtype=torch.int64, device=encoder.device)
        parts = []
        for part, logits in read.logits(state):
            untouched = encoder.logits(before, torch.zeros_like(places[part]), places[part])
            rows = rows_at_a_time(logits)
            for scores, others in zip(untouched.split(rows), logits.split(rows), strict=True):
                wanted = scores.log_softmax(dim=-1)
                parts.append((wanted.exp() * (wanted - others.log_softmax(dim=-1))).sum(dim=-1))
        # Equal distributions differ by rounding.
        return Readout((torch.cat(parts).clamp(min=0.0),), lambda arrays: read.split(arrays[0]))


def _gold_scores(logits: torch.Tensor, golds: torch.Tensor, *, ranked: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns logs and ranks [n, G], from scores [n, vocabulary]."""
    ranks = ranks_of(logits, logits.gather(1, golds)) if ranked else torch.zeros_like(golds)
    return log_probabilities(logits, golds), ranks
