"""Defines how a student is trained: what it imitates, and how fast it learns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StateLoss(Enum):
    """The distance of hidden states; see bertscope.v1.DistillationObjective."""

    COSINE = "cosine"
    MSE = "mse"


@dataclass(frozen=True, slots=True)
class DistillationWeights:
    """The weight of each part of the loss; a part of weight 0 is not computed. teacher_layers: for each layer of the student,
    the teacher's layer that it imitates."""

    soft: float
    temperature: float
    hard: float
    states: float
    state_loss: StateLoss
    attention: float
    teacher_layers: tuple[int, ...]

    @property
    def deep(self) -> bool:
        """True if layers are compared, not predictions alone."""
        return bool(self.states or self.attention)


@dataclass(frozen=True, slots=True)
class DistillationSettings:
    """How a student learns; see bertscope.v1.DistillModelRequest. warm_up: a share of the training."""

    weights: DistillationWeights
    epochs: int
    batch_tokens: int
    learning_rate: float
    warm_up: float
    weight_decay: float
    mask_rate: float
    evaluations: int
    seed: int
    embeddings: bool = False
    """True: embeddings are trained, too."""
    integers: bool = False
    sparse: bool = False
    """True: weights that are 0 stay 0."""
