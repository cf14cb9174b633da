"""Defines how a student is trained: what it imitates, and how fast it learns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bertscope_service.encoders.base import Capabilities


class StateLoss(Enum):
    """The distance of hidden states; see bertscope.v1.DistillationObjective."""

    COSINE = "cosine"
    MSE = "mse"


class Predicted(Enum):
    """The predictions of a text that a student learns. Each is a choice of one of several."""

    MASKED = "masked pieces"
    LABEL = "a label"
    TOKENS = "a label of each piece"
    LABEL_SET = "for each label, whether it holds"

    @classmethod
    def by(cls, capabilities: Capabilities) -> Predicted | None:
        """Returns that of a model; None if it has no head that a student learns from."""
        heads = {
            cls.MASKED: capabilities.masked_lm,
            cls.LABEL: capabilities.classification,
            cls.TOKENS: capabilities.token_classification,
            cls.LABEL_SET: capabilities.multi_label,
        }
        return next((head for head, has in heads.items() if has), None)


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
