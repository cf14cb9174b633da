"""Reads the scores of every token as the first and as the last one of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from bertscope_service.encoders.base import BatchGates, Encoder, ReadsPositions
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class AnswerProbe(Observer):
    """Reads the scores of a row's tokens before the softmax: float32 [tokens, 2], of the beginning and of the end."""

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        lengths = tuple(state.lengths)
        return Readout(
            (answer_logits(encoder, state, gates),),
            lambda arrays: [scores[:length].copy() for scores, length in zip(arrays[0], lengths, strict=True)],
        )


def answer_logits(encoder: Encoder, state: State, gates: BatchGates | None) -> torch.Tensor:
    """Runs the remaining layers and the head. Returns float32 [rows, length, 2]; scores of padding mean nothing."""
    if not isinstance(encoder, ReadsPositions):
        raise TypeError(f"{type(encoder).__name__} has no question answering head")
    encoder.advance(state, encoder.shape.layers, gates)
    return encoder.answer(state)
