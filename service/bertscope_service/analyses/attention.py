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
from bertscope_service.analyses.observers.quantities import Quantity, run_quantity, zero_values
from bertscope_service.analyses.observers.rollout import stack_products
from bertscope_service.analyses.observers.word_maps import by_word
from bertscope_service.analyses.texts import read_input
from bertscope_service.analyses.words import Word, words_of
from bertscope_service.checkpoints.tokenizer import Piece, TextTokenizer
from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State, to_device


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
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        if observers[0].tokens is not None:
            return observers[0]._zero_values(encoder, state, gates, observers[0].tokens)
        reads = [_Read(observer, length, encoder.device) for observer, length in zip(observers, state.lengths, strict=True)]

        def see(layer: int, maps: torch.Tensor) -> None:
            for row, read in enumerate(reads):
                read.take(layer, maps[row])

        layers = {layer for observer in observers for layer in observer.layers}
        quantity, stop = observers[0].quantity, observers[0].stop
        product = stack_products([observer.product for observer in observers])
        rollout = run_quantity(quantity, encoder, state, stop, gates, layers, see, product)
        states: list[State | None] = [None] * len(reads)
        products: list[torch.Tensor | None] = [None] * len(reads)
        for row, read in enumerate(reads):
            if not read.observer.last:
                states[row] = state.row(row)
                products[row] = None if rollout is None else rollout.row(row, read.length)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[LayerStep]:
            return [LayerStep(*parts) for parts in zip(arrays, states, products, strict=True)]

        return Readout(tuple(as_bits(read.maps) for read in reads), deal)

    def _zero_values(self, encoder: Encoder, state: State, gates: BatchGates | None, tokens: range) -> Readout:
        """Runs one step of value zeroing, of a batch of this row alone."""
        read = _Read(self, state.lengths[0], encoder.device)
        after, distances = zero_values(encoder, state, self.stop - 1, gates, tokens, self.product)
        if self.layers:
            read.take(self.stop - 1, shares_of_rows(distances)[None])
        kept = None if self.last else (after if self.layers else state).row(0)
        step = kept, None if self.layers else distances
        return Readout((as_bits(read.maps),), lambda arrays: [LayerStep(arrays[0], *step)])


class _Read:
    """Collects the maps of one row on the device."""

    def __init__(self, observer: AttentionObserver, length: int, device: torch.device) -> None:
        self.observer = observer
        self.length = length
        self.heads = None
        if observer.heads != tuple(range(len(observer.heads))):
            # A list as an index would be copied to the device anew for every layer, and the host would wait for it.
            self.heads = to_device(torch.tensor(observer.heads, dtype=torch.int64, device="cpu"), device)
        self.membership = None
        size = length
        if observer.words is not None:
            one_hot = np.eye(int(observer.words.max()) + 1, dtype=np.float32)[observer.words]
            self.membership = to_device(torch.from_numpy(one_hot), device)
            size = one_hot.shape[1]
        shape = (len(observer.layers), len(observer.heads), size, size)
        self.maps = torch.empty(shape, dtype=observer.dtype, device=device)

    def take(self, layer: int, maps: torch.Tensor) -> None:
        """Keeps one layer's maps if they are requested. maps: [heads, length, length] of this row, padding included."""
        if layer not in self.observer.layers:
            return
        chosen = maps[: len(self.observer.heads)] if self.heads is None else maps.index_select(0, self.heads)
        chosen = chosen[:, : self.length, : self.length]
        if self.membership is not None:
            chosen = by_word(chosen, self.membership)
        self.maps[self.observer.layers.index(layer)] = chosen


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
