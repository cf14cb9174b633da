"""Reads the scores of every token as the first and as the last one of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch

from bertscope_service.encoders.base import Encoder, ReadsPositions
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True)
class AnswerObserver(Observer):
    """Reads the scores of a row's tokens before the softmax: float32 [tokens, 2], of the beginning and of the end.

    golds: positions of the first and the last token of gold answers, for the loss: the mean of -ln P of the beginning and of
    the end, among the row's tokens, of the answer for which it is least, times `weight`.
    """

    reads_places: ClassVar[bool] = False
    golds: tuple[tuple[int, int], ...] = ((0, 0),)
    weight: float = 1.0

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        lengths = tuple(state.lengths)
        return Readout(
            (answer_logits(encoder, state, edits),),
            lambda arrays: [scores[:length].copy() for scores, length in zip(arrays[0], lengths, strict=True)],
        )

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        logits = answer_logits(encoder, state, edits)
        if state.valid is not None:
            logits = logits.masked_fill(~state.valid[..., None], -torch.inf)
        width = max(len(observer.golds) for observer in observers)
        # Repeating a gold answer changes no minimum.
        golds = [[*observer.golds, *[observer.golds[-1]] * (width - len(observer.golds))] for observer in observers]
        weights = np.array([observer.weight for observer in observers], dtype=np.float32)
        placed, weight = place_arrays(encoder.device, np.array(golds, dtype=np.int64), weights)
        likeliest = logits.log_softmax(dim=1).gather(1, placed).mean(dim=2).max(dim=1).values
        return -likeliest * weight


def answer_logits(encoder: Encoder, state: State, edits: BatchEdits | None) -> torch.Tensor:
    """Runs the remaining layers and the head. Returns float32 [rows, length, 2]; scores of padding mean nothing."""
    if not isinstance(encoder, ReadsPositions):
        raise TypeError(f"{type(encoder).__name__} has no question answering head")
    encoder.advance(state, encoder.shape.layers, edits)
    return encoder.answer(state)
