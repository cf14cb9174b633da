"""Attention maps of texts, by pieces or by words, computed layer by layer so that a text's maps are never all in memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.layer_steps import LayerPlan, LayerStep, LayerTensor, as_bits
from bertscope_service.analyses.observers.contributions import shares_of_rows
from bertscope_service.analyses.observers.kept_maps import KeptMaps
from bertscope_service.analyses.observers.quantities import Quantity, run_quantity, zero_values
from bertscope_service.analyses.observers.rollout import stack_products
from bertscope_service.analyses.texts import read_input
from bertscope_service.analyses.words import Word, words_of
from bertscope_service.checkpoints.tokenized_text import Piece
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """An ExtractAttention request; `layers` and `heads` are in the requested order, never empty. `heads` is
    (0,) for a quantity that a layer has once."""

    inputs: tuple[tuple[str, str | None], ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    dtype: torch.dtype
    words: bool
    truncate: bool
    quantity: Quantity = Quantity.WEIGHTS


@dataclass(frozen=True, slots=True, eq=False)
class AttentionObserver:
    """Reads the maps of `layers` (ascending, all in [start, stop)) for `heads` in the given order; keeps the state unless
    `last`.

    words: number of the word of each token [tokens], to read maps by word (Clark et al. 2019, section 4.1); None for pieces.
    product: of a rollout so far, or the distances of value zeroing in a layer so far, float32 [length, length] on the device,
    after the step before; None if there is nothing to continue. tokens: those whose values value zeroing sets to zero in layer
    `stop` - 1; `layers` is empty until they are the last ones.
    """

    start: int
    stop: int
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    dtype: torch.dtype
    words: NDArray[np.int64] | None
    last: bool
    quantity: Quantity = Quantity.WEIGHTS
    product: torch.Tensor | None = None
    tokens: range | None = None

    @property
    def group(self) -> Hashable:
        # Value zeroing takes as long for one text as other quantities do for a batch.
        alone = id(self) if self.quantity is Quantity.VALUE_ZEROING else None
        return self.start, self.stop, self.quantity, alone

    def after(self, product: torch.Tensor | None) -> AttentionObserver:
        """Returns this observer, to continue from the product of the step before."""
        return self if product is None else replace(self, product=product)

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        if observers[0].tokens is not None:
            return observers[0]._zero_values(encoder, state, edits, observers[0].tokens)
        quantity, stop = observers[0].quantity, observers[0].stop
        heads = encoder.shape.heads if quantity.by_head else 1
        kept = KeptMaps(observers, state.lengths, heads, encoder.device)
        layers = {layer for observer in observers for layer in observer.layers}
        product = stack_products([observer.product for observer in observers])
        rollout = run_quantity(quantity, encoder, state, stop, edits, layers, kept.take, product)
        going_on = [row for row, observer in enumerate(observers) if not observer.last]
        states = dict(zip(going_on, state.rows(going_on), strict=True))
        products = {} if rollout is None else {row: rollout.row(row, state.lengths[row]) for row in going_on}

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[LayerStep]:
            return [LayerStep(array, states.get(row), products.get(row)) for row, array in enumerate(arrays)]

        return Readout(tuple(map(as_bits, kept.maps)), deal)

    def _zero_values(self, encoder: Encoder, state: State, edits: BatchEdits | None, tokens: range) -> Readout:
        """Runs one step of value zeroing, of a batch of this row alone."""
        kept = KeptMaps([self], state.lengths, 1, encoder.device)
        after, distances = zero_values(encoder, state, self.stop - 1, edits, tokens, self.product)
        if self.layers:
            kept.take(self.stop - 1, shares_of_rows(distances)[None, None])
        going_on = None if self.last else (after if self.layers else state).row(0)
        step = going_on, None if self.layers else distances
        return Readout((as_bits(kept.maps[0]),), lambda arrays: [LayerStep(arrays[0], *step)])


class TextPlan(LayerTensor):
    """The plan to read one text's maps on a device: its tokens, the shape of its tensor, and the steps in their order.

    Raises InvalidArgument for a text that is too long or holds no token.
    """

    def __init__(self, query: AttentionQuery, index: int, tokenizer: TextTokenizer, device: torch.device) -> None:
        tokenized = read_input(tokenizer, *query.inputs[index], f"inputs[{index}]", truncate=query.truncate)
        self.query = query
        self.truncated = tokenized.truncated
        self.tokens: list[Piece] | list[Word] = tokenized.pieces(tokenizer)
        self._membership: NDArray[np.int64] | None = None
        if query.words:
            self._membership, self.tokens = words_of(self.tokens, tokenized)
        size = len(self.tokens)
        self.shape = (len(query.layers), len(query.heads), size, size)
        super().__init__(tokenized.sequence, query.layers, query.dtype.itemsize * len(query.heads) * size**2)
        self.steps: tuple[AttentionObserver, ...] = tuple(self._steps(size_limits(device).zeroing_tokens))

    def _steps(self, zeroing_tokens: int) -> Iterator[AttentionObserver]:
        """Yields the observer of each step; every step continues from the state that the one before left."""
        if self.query.quantity is Quantity.VALUE_ZEROING:
            yield from self._zeroing_steps(zeroing_tokens)
            return
        parts = self.parts()
        start = 0
        for part in parts:
            stop = part[-1] + 1
            last = part is parts[-1]
            words, quantity = self._membership, self.query.quantity
            yield AttentionObserver(start, stop, part, self.query.heads, self.query.dtype, words, last, quantity)
            start = stop

    def _zeroing_steps(self, tokens_at_a_time: int) -> Iterator[AttentionObserver]:
        """Yields the observers of value zeroing, one or more for each layer."""
        layers, length = sorted(self.query.layers), len(self.sequence)
        many = max(1, tokens_at_a_time // length)
        start = 0
        for layer in layers:
            for begin in range(0, length, many):
                tokens = range(begin, min(begin + many, length))
                whole = tokens.stop == length
                yield AttentionObserver(
                    start,
                    layer + 1,
                    (layer,) if whole else (),
                    self.query.heads,
                    self.query.dtype,
                    self._membership,
                    whole and layer == layers[-1],
                    self.query.quantity,
                    tokens=tokens,
                )
                start = layer + 1 if whole else layer


class AttentionPlan(LayerPlan[TextPlan]):
    """The plan to read the maps of all texts of a query on a device.

    Raises InvalidArgument for a text that is too long or holds no token.
    """

    def __init__(self, query: AttentionQuery, tokenizer: TextTokenizer, device: torch.device) -> None:
        super().__init__([TextPlan(query, index, tokenizer, device) for index in range(len(query.inputs))])
