"""Defines how layers are taken apart into the contributions of single tokens, in any runtime."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import torch

from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.state import State

PRE_NORM = frozenset({"modernbert"})
"""Architectures whose layers end without a normalisation; one follows behind the last."""


class Part(Enum):
    """A part of a model that a `Decomposition` may lack.

    CONTRIBUTIONS: `take_apart` and `projection`. NORMALISATION: `normalisation`. RERUN: `finish`. LAST: `normalise_last`.
    """

    CONTRIBUTIONS = "contributions"
    NORMALISATION = "normalisation"
    RERUN = "rerun"
    LAST = "last"


@dataclass(frozen=True, slots=True, eq=False)
class RowParts:
    """One text of `LayerParts`, without padding and without its first dimension."""

    weights: torch.Tensor
    values: torch.Tensor
    constant: torch.Tensor | None
    before: torch.Tensor

    def contexts(self) -> torch.Tensor:
        """Returns the input of the output projection, [length, heads * head_size]."""
        contexts = self.weights.to(self.values.dtype) @ self.values
        if self.constant is not None:
            contexts = contexts + self.constant[:, None]
        return contexts.transpose(0, 1).flatten(1)


@dataclass(frozen=True, slots=True, eq=False)
class LayerParts:
    """A layer of a batch that has run. Its output projection got, for each head h and at each position i, the vector
    sum_j weights[h, i, j] values[h, j] + constant[h].

    layer: its number. heads: the heads that its weights have, of all heads. lengths: real tokens of each row.
    weights: float32 [rows, heads, length, length]: the attention maps A, and where gates act keep * A + uniform / L.
    values: [rows, heads, length, head_size], in the model's number format. constant: [rows, heads, head_size], None for zeros.
    before: hidden states before the layer, [rows, length, hidden_size].
    """

    layer: int
    heads: tuple[int, ...]
    lengths: tuple[int, ...]
    weights: torch.Tensor
    values: torch.Tensor
    constant: torch.Tensor | None
    before: torch.Tensor

    def row(self, index: int) -> RowParts:
        """Returns views of one row."""
        length = self.lengths[index]
        constant = None if self.constant is None else self.constant[index]
        weights, values = self.weights[index, :, :length, :length], self.values[index, :, :length]
        return RowParts(weights, values, constant, self.before[index, :length])


@dataclass(frozen=True, slots=True, eq=False)
class Normalisation:
    """The layer normalisation of x + attention(x): `scale` is gamma, float32 [hidden_size], `deviation` the deviation that it
    divided each position by, float32 [length]."""

    scale: torch.Tensor
    deviation: torch.Tensor


class Decomposition(Protocol):
    """Takes the layers of one encoder apart; on the thread of the device's worker."""

    def refusal(self, part: Part) -> str | None:
        """Returns why the encoder lacks a part, with the remedy, to continue "it can't ...:"; None if it has the part."""

    def take_apart(self, state: State, gates: BatchGates | None) -> LayerParts:
        """Runs the state's layer, as `Encoder.advance` does, and returns its parts."""

    def projection(self, layer: int) -> torch.Tensor:
        """Returns the output projection of the layer's heads, without its bias: float32 [heads, head_size, size]."""

    def normalisation(self, layer: int, row: RowParts) -> Normalisation:
        """Returns the normalisation of a text's x + attention(x)."""

    def finish(self, layer: int, contexts: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Runs the rest of a layer for other contexts of one text, [n, length, heads * head_size]: [n, length, hidden_size].
        `before` is [length, hidden_size]."""

    def normalise_last(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the last normalisation of the model to states [n, hidden_size]."""


def decomposition_of(encoder: Encoder) -> Decomposition | None:
    """Returns the decomposition of an encoder; None if its runtime has none."""
    found: Decomposition | None = getattr(encoder, "decomposition", None)
    return found
