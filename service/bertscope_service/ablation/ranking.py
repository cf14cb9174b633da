"""Ranks heads by gradient importance."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.observers.importance import GradientObserver, normalised
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Gradient importance of heads: both arrays are float64 [layers, heads].

    gradient: mean absolute derivative of the loss with respect to each head's gate, nats. importance: the same, l2-normalised
    within each layer. loss: the mean loss, nats.
    """

    gradient: NDArray[np.float64]
    importance: NDArray[np.float64]
    loss: float


async def rank_heads(encoder: Encoder, objective: Objective, edits: Edits | None, bulk: BulkRunner) -> Ranking:
    """Measures gradient importance (Michel et al. 2019, section 4) on an objective that has a loss.

    Raises FailedPrecondition if the gradients are not finite.
    """
    gradient, loss = np.zeros((encoder.shape.layers, encoder.shape.heads)), 0.0
    sequences, observers = objective.sequences, objective.losses
    lengths = [len(sequence) for sequence in sequences]

    def made(row: int) -> Row:
        return Row(encoder, sequences[row], GradientObserver(observers[row]), edits)

    async with aclosing(bulk.results(lengths, made)) as results:
        async for row_loss, row_gradient in results:
            loss += row_loss
            gradient += row_gradient
    if not (np.isfinite(gradient).all() and np.isfinite(loss)):
        message = "the model's gradients are not finite in this precision; load it in fp32 or bf16"
        raise FailedPrecondition(message, "SCORES_NOT_FINITE")
    mean = gradient / objective.items
    return Ranking(mean, normalised(mean), loss / objective.items)
