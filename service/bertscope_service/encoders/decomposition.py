"""Defines how layers are taken apart into the contributions of single tokens, in any runtime."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.state import State


class Part(Enum):
    """A part of a model that a `Decomposition` may lack.

    CONTRIBUTIONS: `take_apart` and `projection`. NORMALISATION: `normalisation`. END: `normalisation_at_end`. RERUN: `finish`.
    LAST: `normalise_last`. STREAM: `stream` and `masked_lm_head`.
    """

    CONTRIBUTIONS = "contributions"
    NORMALISATION = "normalisation"
    END = "end"
    RERUN = "rerun"
    LAST = "last"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, eq=False)
class LayerParts:
    """A layer of a batch that has run. Its output projection got, for each head h and at each position i, the vector
    sum_j weights[h, i, j] values[h, j] + constant[h].

    layer: its number. heads: the heads that its weights have, of all heads. lengths: real tokens of each row. valid: the same
    as a mask, bool [rows, length], None if no row is padded.
    weights: float32 [rows, heads, length, length]: the attention maps A, and where gates act keep * A + uniform / L.
    values: [rows, heads, length, head_size], in the model's number format. constant: [rows, heads, head_size], None for zeros.
    before: hidden states before the layer, [rows, length, hidden_size].
    """

    layer: int
    heads: tuple[int, ...]
    lengths: tuple[int, ...]
    valid: torch.Tensor | None
    weights: torch.Tensor
    values: torch.Tensor
    constant: torch.Tensor | None
    before: torch.Tensor

    def some(self, rows: slice) -> LayerParts:
        """Returns views of some rows, padded to the longest of them."""
        lengths = self.lengths[rows]
        length = max(lengths)
        valid = None if self.valid is None or min(lengths) == length else self.valid[rows, :length]
        constant = None if self.constant is None else self.constant[rows]
        weights, values = self.weights[rows, :, :length, :length], self.values[rows, :, :length]
        return LayerParts(self.layer, self.heads, lengths, valid, weights, values, constant, self.before[rows, :length])

    def contexts(self) -> torch.Tensor:
        """Returns the input of the output projection, [rows, length, heads * head_size]."""
        contexts = self.weights.to(self.values.dtype) @ self.values
        if self.constant is not None:
            contexts = contexts + self.constant[:, :, None]
        return contexts.transpose(1, 2).flatten(2)


@dataclass(frozen=True, slots=True, eq=False)
class FrozenNorm:
    """A layer normalisation with its statistics at some positions frozen, which makes it affine (Kobayashi et al. 2021, section
    3.2): v becomes (v - mean(v)) / deviation * scale + shift.

    scale, shift: float32 [size], shift None for zeros. deviation: float32 [n] or [rows, length], one of each position.
    """

    scale: torch.Tensor
    shift: torch.Tensor | None
    deviation: torch.Tensor

    @staticmethod
    def of(scale: torch.Tensor, shift: torch.Tensor | None, epsilon: float, read: torch.Tensor) -> FrozenNorm:
        """Returns the normalisation of vectors [..., size]."""
        variance = read.float().var(dim=-1, correction=0)
        return FrozenNorm(scale.float(), None if shift is None else shift.float(), torch.sqrt(variance + epsilon))

    def undivided(self, terms: torch.Tensor) -> torch.Tensor:
        """Applies all but the deviation and the shift to terms of a sum, [..., size]."""
        return (terms - terms.mean(dim=-1, keepdim=True)) * self.scale

    def linear(self, terms: torch.Tensor) -> torch.Tensor:
        """Applies all but the shift to terms of a sum, [n, terms, size]."""
        return self.undivided(terms) / self.deviation[:, None, None]


@dataclass(frozen=True, slots=True, eq=False)
class LayerStream:
    """The vectors that a layer adds to its input at n positions, float32: second(first(x + heads + bias) + feed_forward).

    heads: [n, heads, hidden_size], of the heads that its weights have. bias: that of the output projection, [hidden_size], None
    for zeros. first, second: the normalisations after each sum, None without one. feed_forward: [n, hidden_size].
    """

    heads: torch.Tensor
    bias: torch.Tensor | None
    first: FrozenNorm | None
    feed_forward: torch.Tensor
    second: FrozenNorm | None


@dataclass(frozen=True, slots=True, eq=False)
class HeadStream:
    """The masked-LM head at n positions, float32: decoder(norm(factor * (dense(x) + dense_bias))).

    dense: the linear map without its bias, [m, hidden_size] to [m, size]. dense_bias: [size]. factor: the activation's output
    divided by its input, [n, size]: for GELU(z) = z P(z), it is P(z), frozen. rows, bias: the decoder's rows [n, C, size] and
    biases [n, C] of the asked entries.
    """

    dense: Callable[[torch.Tensor], torch.Tensor]
    dense_bias: torch.Tensor
    factor: torch.Tensor
    norm: FrozenNorm
    rows: torch.Tensor
    bias: torch.Tensor


SMALL = 1e-4
"""Inputs of an activation that are closer to 0 have the factor of this one: 0 / 0 is none."""


def activation_factor(read: torch.Tensor, activation: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Returns activation(z) / z, for an activation that is 0 at 0."""
    apart = torch.where(read.abs() < SMALL, torch.full_like(read, SMALL), read)
    return activation(apart) / apart


def contexts_at(parts: LayerParts, positions: torch.Tensor) -> torch.Tensor:
    """Returns the input of the output projection at one position of each row, int64 [rows]: [rows, heads, head_size]."""
    rows = torch.arange(len(positions), dtype=torch.int64, device=positions.device)
    weights = parts.weights[rows, :, positions].to(parts.values.dtype)
    contexts = (weights[:, :, None] @ parts.values)[:, :, 0]
    return contexts if parts.constant is None else contexts + parts.constant


class Decomposition(Protocol):
    """Takes the layers of one encoder apart; on the thread of the device's worker."""

    def refusal(self, part: Part) -> str | None:
        """Returns why the encoder lacks a part, with the remedy, to continue "it can't ...:"; None if it has the part."""

    def take_apart(self, state: State, edits: BatchEdits | None) -> LayerParts:
        """Runs the state's layer, as `Encoder.advance` does, and returns its parts."""

    def projection(self, layer: int) -> torch.Tensor:
        """Returns the output projection of the layer's heads, without its bias: float32 [heads, head_size, size]."""

    def normalisation(self, parts: LayerParts) -> tuple[FrozenNorm, torch.Tensor]:
        """Returns the normalisation of x + attention(x) at all positions, and what it wrote, [rows, length, hidden_size]."""

    def normalisation_at_end(self, layer: int, attended: torch.Tensor) -> FrozenNorm:
        """Returns the normalisation of y + feed_forward(y) at all positions, y what the first normalisation of the layer
        wrote."""

    def finish(self, layer: int, contexts: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Runs the rest of a layer for other contexts of one text, [n, length, heads * head_size]: [n, length, hidden_size].
        `before` is [length, hidden_size]."""

    def stream(self, parts: LayerParts, positions: torch.Tensor) -> LayerStream:
        """Returns what a layer adds at one position of each row, int64 [rows]."""

    def masked_lm_head(self, hidden: torch.Tensor, ids: torch.Tensor) -> HeadStream:
        """Returns the masked-LM head for states [n, hidden_size] and the scores of some entries, int64 [n, C]."""

    def normalise_last(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the last normalisation of the model to states [n, hidden_size]."""


@runtime_checkable
class Freezes(Protocol):
    """A decomposition whose encoder has gradients, and can hold constant in them what makes it nonlinear."""

    @property
    def frozen_refusal(self) -> str | None:
        """Why this encoder can't, with the remedy, to continue "it can't ...:"; None if it can."""

    def frozen(self) -> AbstractContextManager[None]:
        """Holds attention weights, deviations of normalisations, and factors activation(z) / z constant in the gradients of
        what runs inside: a score is then affine in the states that it is computed from, and its value stays. A product of an
        activation with another input, as in a gated feed-forward block, holds the activation."""


def decomposition_of(encoder: Encoder) -> Decomposition | None:
    """Returns the decomposition of an encoder; None if its runtime has none."""
    found: Decomposition | None = getattr(encoder, "decomposition", None)
    return found
