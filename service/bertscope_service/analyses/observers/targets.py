"""Reads one number of a row, by any head: see bertscope.v1.Target.

`Target.values` is differentiable with respect to the states that the layers begin with, so that gradients and plain runs read
the same number.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.answers import answer_logits
from bertscope_service.analyses.observers.declared_pooling import SHORTEST, WholeText
from bertscope_service.analyses.observers.predictions import next_sentence_scores, sequence_scores
from bertscope_service.analyses.observers.reading import Reading
from bertscope_service.analyses.observers.token_labels import token_scores
from bertscope_service.encoders.base import Encoder, ScoresEntries
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


class Scale(Enum):
    """The scale of a target; see bertscope.v1.TargetScale."""

    LOGIT = "logit"
    LOG_PROBABILITY = "log_probability"
    PROBABILITY = "probability"


@dataclass(frozen=True, slots=True, eq=False)
class Target(Observer):
    """Reads one number of a row: a float."""

    reads_places: ClassVar[bool] = False

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        return Readout((cls.values(encoder, state, edits, observers),), lambda arrays: arrays[0].astype(np.float64).tolist())

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        """Runs the remaining layers and the head. Returns the number of each row, float32 [rows]. All targets are of one
        group."""
        raise NotImplementedError

    def moved(self, kept: NDArray[np.int64]) -> Self:
        """Returns the target in a row of which only the positions `kept`, ascending, are left; its own are among them."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class EntryTarget(Target):
    """Reads an entry of the vocabulary at a position, minus another one if there are two `ids`."""

    position: int
    ids: tuple[int, ...]
    scale: Scale = Scale.LOGIT

    @property
    def group(self) -> Hashable:
        return self.scale, len(self.ids)

    def moved(self, kept: NDArray[np.int64]) -> Self:
        return replace(self, position=int(np.searchsorted(kept, self.position)))

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        ids = np.array([target.ids for target in targets], dtype=np.int64)
        read = Reading(encoder, [(target.position,) for target in targets], ids)
        read.advance(state, edits)
        (placed,) = read.others
        scale = targets[0].scale
        if _is_logit(scale, placed) and isinstance(encoder, ScoresEntries):
            return _difference(encoder.entry_logits(state, read.rows, read.places, placed))
        return torch.cat([_chosen(logits, placed[part], scale) for part, logits in read.logits(state)])


@dataclass(frozen=True, slots=True, eq=False)
class LabelTarget(Target):
    """Reads a label of the text, minus another one if there are two `labels`. `several`: any number of labels may hold."""

    labels: tuple[int, ...]
    scale: Scale = Scale.LOGIT
    several: bool = False

    @property
    def group(self) -> Hashable:
        return self.scale, len(self.labels)

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        (labels,) = place_arrays(encoder.device, np.array([target.labels for target in targets], dtype=np.int64))
        return _chosen(sequence_scores(encoder, state, edits), labels, targets[0].scale, several=targets[0].several)


@dataclass(frozen=True, slots=True, eq=False)
class WordLabelTarget(Target):
    """Reads a label of the token at a position, minus another one if there are two `labels`."""

    position: int
    labels: tuple[int, ...]
    scale: Scale = Scale.LOGIT

    @property
    def group(self) -> Hashable:
        return self.scale, len(self.labels)

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        scores, _ = token_scores(encoder, state, edits, [(target.position,) for target in targets])
        (labels,) = place_arrays(encoder.device, np.array([target.labels for target in targets], dtype=np.int64))
        return _chosen(scores, labels, targets[0].scale)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTarget(Target):
    """Reads a span as the answer: its first token as a beginning and its last one as an end, their positions in `ends`."""

    ends: tuple[int, int]
    scale: Scale = Scale.LOGIT

    @property
    def group(self) -> Hashable:
        return self.scale

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        (ends,) = place_arrays(encoder.device, np.array([target.ends for target in targets], dtype=np.int64))
        scores, scale = answer_logits(encoder, state, edits), targets[0].scale
        if scale is not Scale.LOGIT:
            if state.valid is not None:
                scores = scores.masked_fill(~state.valid[..., None], -torch.inf)
            scores = scores.log_softmax(dim=1)
        found = scores.gather(1, ends[:, None])[:, 0].sum(dim=1)
        return found.exp() if scale is Scale.PROBABILITY else found


@dataclass(frozen=True, slots=True, eq=False)
class ValueTarget(Target):
    """Reads the value of a regression head."""

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        return sequence_scores(encoder, state, edits)[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class NextSentenceTarget(Target):
    """Reads that the second text of a pair follows the first."""

    scale: Scale = Scale.LOGIT

    @property
    def group(self) -> Hashable:
        return self.scale

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        scores, scale = next_sentence_scores(encoder, state, edits), targets[0].scale
        if scale is Scale.LOGIT:
            return scores[:, 0] - scores[:, 1]
        found = scores.log_softmax(dim=1)[:, 0]
        return found.exp() if scale is Scale.PROBABILITY else found


@dataclass(frozen=True, slots=True, eq=False)
class VectorObserver(Observer):
    """Reads the pooled vector of a row's last states: float32 [size]."""

    text: WholeText

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        vectors = _pooled(encoder, state, edits, [observer.text for observer in observers])
        return Readout(tuple(vectors), list)


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityTarget(Target):
    """Reads the cosine of the pooled vector of a row's last states and `other`, float32 [size]."""

    text: WholeText
    other: NDArray[np.float32]

    @classmethod
    def values(cls, encoder: Encoder, state: State, edits: BatchEdits | None, targets: Sequence[Self]) -> torch.Tensor:
        (others,) = place_arrays(encoder.device, np.stack([target.other for target in targets]))
        vectors = torch.stack(_pooled(encoder, state, edits, [target.text for target in targets]))
        return torch.nn.functional.cosine_similarity(vectors, others, dim=1, eps=SHORTEST)


def _pooled(encoder: Encoder, state: State, edits: BatchEdits | None, texts: Sequence[WholeText]) -> list[torch.Tensor]:
    """Runs the remaining layers. Returns the pooled vector of each row, float32 [size]."""
    encoder.advance(state, encoder.shape.layers, edits)
    rows = zip(texts, state.hidden, state.lengths, strict=True)
    return [text.join(states[:length])[0] for text, states, length in rows]


def _chosen(scores: torch.Tensor, ids: torch.Tensor, scale: Scale, *, several: bool = False) -> torch.Tensor:
    """Returns the number of the first of one or two `ids` of each row, [n, C], minus that of the second, of scores [n, size].

    `several`: each score has a probability of its own, else all of a row share one.
    """
    if _is_logit(scale, ids, several=several):
        found = scores.gather(1, ids)
    elif several:
        found = torch.nn.functional.logsigmoid(scores.gather(1, ids))
    else:
        found = scores.log_softmax(dim=1).gather(1, ids)
    if scale is Scale.PROBABILITY:
        found = found.exp()
    return _difference(found)


def _is_logit(scale: Scale, ids: torch.Tensor, *, several: bool = False) -> bool:
    """Returns whether logits alone give the number: of two logarithms of one softmax, the difference is that of the logits."""
    return scale is Scale.LOGIT or (scale is Scale.LOG_PROBABILITY and ids.shape[1] == 2 and not several)


def _difference(found: torch.Tensor) -> torch.Tensor:
    """Returns the first of one or two columns, minus the second."""
    return found[:, 0] if found.shape[1] == 1 else found[:, 0] - found[:, 1]
