"""Hidden states of texts, computed layer by layer so that a text's states are never all in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from numpy.typing import NDArray

from bertscope_service.analyses.layer_steps import LayerPlan, LayerStep, LayerTensor
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer, TokenizedText
from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class StatesQuery:
    """An ExtractHiddenStates request; `layers` are in the requested order, never empty: 0 is the embeddings, k the output of
    layer k - 1."""

    inputs: tuple[tuple[str, str | None], ...]
    layers: tuple[int, ...]
    dtype: torch.dtype
    truncate: bool


@dataclass(frozen=True, slots=True, eq=False)
class StatesObserver:
    """Reads the states of `layers` (ascending, none below the layer of the state); keeps the state unless `last`."""

    layers: tuple[int, ...]
    dtype: torch.dtype
    last: bool

    @property
    def group(self) -> Hashable:
        return self.layers[-1]

    def after(self, product: torch.Tensor | None) -> Self:
        """Returns the observer: nothing but the state goes from step to step."""
        return self

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        lengths, device = state.lengths, encoder.device
        values = [
            torch.empty((len(one.layers), length, encoder.shape.hidden_size), dtype=one.dtype, device=device)
            for one, length in zip(observers, lengths, strict=True)
        ]
        for layer in sorted({layer for one in observers for layer in one.layers}):
            if layer > state.layer:
                encoder.advance(state, layer, gates)
            for row, (one, length) in enumerate(zip(observers, lengths, strict=True)):
                if layer in one.layers:
                    values[row][one.layers.index(layer)] = state.hidden[row, :length]
        finite = torch.stack([all_finite(one) for one in values])
        states = [None if one.last else state.row(row) for row, one in enumerate(observers)]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[LayerStep]:
            *found, sound = arrays
            rows = zip(found, states, sound.tolist(), strict=True)
            return [LayerStep(array, kept, finite=there) for array, kept, there in rows]

        return Readout((*values, finite), deal)


def all_finite(values: torch.Tensor) -> torch.Tensor:
    """Returns whether no number is infinite or NaN, a bool on the device."""
    return torch.isfinite(torch.stack(torch.aminmax(values))).all()  # one pass; NaN is both the least and the largest


class TextStates(LayerTensor):
    """The plan to read one text's states: its tokens, the shape of its tensor, and the steps in their order."""

    def __init__(self, query: StatesQuery, tokenized: TokenizedText, tokenizer: TextTokenizer, size: int) -> None:
        """`size`: the length of a state."""
        self.truncated = tokenized.truncated
        self.tokens = tokenized.pieces(tokenizer)
        self.dtype = query.dtype
        self.shape = (len(query.layers), len(self.tokens), size)
        super().__init__(tokenized.sequence, query.layers, query.dtype.itemsize * len(self.tokens) * size)
        parts = self.parts()
        self.steps = tuple(StatesObserver(part, query.dtype, part is parts[-1]) for part in parts)


class StatesPlan(LayerPlan[TextStates]):
    """The plan to read the states of all texts of a query.

    Raises InvalidArgument for a text that is too long or holds no token.
    """

    def __init__(self, query: StatesQuery, tokenizer: TextTokenizer, size: int) -> None:
        """`size`: the length of a state."""
        texts = read_inputs(tokenizer, query.inputs, "inputs", truncate=query.truncate)
        super().__init__([TextStates(query, tokenized, tokenizer, size) for tokenized in texts])
