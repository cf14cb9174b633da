"""Hidden states of texts, computed layer by layer so that a text's states are never all in memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Self

import torch
from numpy.typing import NDArray

from bertscope_service.analyses.layer_steps import LayerPlan, LayerStep, LayerTensor, as_bits
from bertscope_service.analyses.observers.declared_pooling import WholeText
from bertscope_service.analyses.observers.pooling import Join, Pooling, Units
from bertscope_service.analyses.observers.state_quantities import StateQuantity, show
from bertscope_service.analyses.state_units import StatesInput, Unit, rows_of
from bertscope_service.analyses.texts import read_named_inputs
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class StatesQuery:
    """An ExtractHiddenStates request; `layers` are in the requested order, never empty. Of states, 0 is the embeddings, k the
    output of layer k - 1. `truncate` is None where the call can't cut texts. `pooling` is of no matter for pieces. `declared`,
    the pooling of texts that a model declares, takes its place; the unit is the text then, and there are no pairs if it has a
    prompt."""

    inputs: tuple[StatesInput, ...]
    layers: tuple[int, ...]
    dtype: torch.dtype
    truncate: bool | None
    unit: Unit = Unit.PIECE
    pooling: Pooling = Pooling.MEAN
    declared: DeclaredPooling | None = None
    quantity: StateQuantity = StateQuantity.HIDDEN


@dataclass(frozen=True, slots=True, eq=False)
class StatesObserver:
    """Reads a quantity of `layers` (ascending, none below the layer of the state) by unit, or of all pieces without `units`;
    a row has `size` numbers. Keeps the state unless `last`."""

    layers: tuple[int, ...]
    dtype: torch.dtype
    last: bool
    size: int
    units: Units | WholeText | None = None
    quantity: StateQuantity = StateQuantity.HIDDEN

    @property
    def group(self) -> Hashable:
        return self.quantity, self.layers[-1]

    def after(self, product: torch.Tensor | None) -> Self:
        """Returns the observer: nothing but the state goes from step to step."""
        return self

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        kept = _Kept(observers, state.lengths, encoder.device)
        for layer in sorted({layer for one in observers for layer in one.layers}):
            show(encoder, state, layer, edits, observers[0].quantity, partial(kept.take, layer))
        finite = all_finite(kept.values)
        going_on = [row for row, one in enumerate(observers) if not one.last]
        states = dict(zip(going_on, state.rows(going_on), strict=True))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[LayerStep]:
            *found, sound = arrays
            rows = enumerate(zip(found, sound.tolist(), strict=True))
            return [LayerStep(array, states.get(row), finite=there) for row, (array, there) in rows]

        return Readout((*map(as_bits, kept.values), finite), deal)


class _Kept:
    """The values of a batch's rows on the device: `values` of each row, [layers, rows of the text, size]."""

    def __init__(self, observers: Sequence[StatesObserver], lengths: Sequence[int], device: torch.device) -> None:
        self._observers, self._lengths = observers, lengths
        places = zip(observers, lengths, strict=True)
        self._counts = [length if one.units is None else one.units.count for one, length in places]
        self._joins = list(self._place_joins(device))
        self.values = [
            torch.empty((len(one.layers), count, one.size), dtype=one.dtype, device=device)
            for one, count in zip(observers, self._counts, strict=True)
        ]

    def take(self, layer: int, hidden: torch.Tensor) -> None:
        """Keeps one layer's values of the rows for which it is requested. hidden: [rows, length, size], padding included."""
        rows = zip(self._observers, self.values, self._of(hidden), strict=True)
        pairs = [(values[one.layers.index(layer)], own) for one, values, own in rows if layer in one.layers]
        torch._foreach_copy_([target for target, _ in pairs], [own for _, own in pairs])  # one launch for all

    def _of(self, hidden: torch.Tensor) -> Sequence[torch.Tensor]:
        """Returns the values of each row."""
        own = [row[:length] for row, length in zip(hidden, self._lengths, strict=True)]
        for rows, join in self._joins:
            counts = [self._counts[row] for row in rows]
            for row, values in zip(rows, join(hidden.flatten(0, 1)).split(counts), strict=True):
                own[row] = values
        for row, one in enumerate(self._observers):
            if isinstance(one.units, WholeText):
                own[row] = one.units.join(own[row])
        return own

    def _place_joins(self, device: torch.device) -> Iterator[tuple[list[int], Join]]:
        """Yields the rows with units of each pooling, and what joins the states of their pieces."""
        for pooling in Pooling:
            units = {row: one.units for row, one in enumerate(self._observers) if isinstance(one.units, Units)}
            units = {row: one for row, one in units.items() if one.pooling is pooling}
            if units:
                yield list(units), Units.in_batch(units, max(self._lengths)).place(device)


def all_finite(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns whether no number of a row is infinite or NaN, bools on the device."""
    # One pass over each; NaN is the least, the largest and the norm of numbers of which it is one.
    if rows[0].device.type != "cpu":
        return torch.isfinite(torch.stack(torch._foreach_norm(list(rows), torch.inf)))
    ends = [end.float() for row in rows for end in torch.aminmax(row)]
    return torch.isfinite(torch.stack(ends).view(-1, 2)).all(dim=1)


class TextStates(LayerTensor):
    """The plan to read one text's states: what its rows are of, the shape of its tensor, and the steps in their order.

    Raises InvalidArgument for a span that holds no piece, or that is cut.
    """

    def __init__(
        self,
        query: StatesQuery,
        given: StatesInput,
        tokenized: TokenizedText,
        tokenizer: TextTokenizer,
        dimensions: tuple[int, ...],
        field: str,
        prompt: int = 0,
    ) -> None:
        """`dimensions`: those of a piece's values. `field` holds the marked parts. `prompt`: first tokens, not pooled."""
        self.truncated = tokenized.truncated
        self.query = query
        self.tokens, groups = rows_of(query.unit, given, tokenized, tokenizer, field)
        units: Units | WholeText | None = None
        if query.declared is not None:
            units = WholeText(query.declared, prompt)
            dimensions = (prod(dimensions) * len(query.declared.modes),)
        elif groups is not None:
            units = Units.made(groups, query.pooling)
        rows = len(tokenized) if units is None else units.count
        self.shape = (len(query.layers), rows, *dimensions)
        size = prod(dimensions)
        super().__init__(tokenized.sequence, query.layers, query.dtype.itemsize * rows * size)
        parts = self.parts()
        self.steps = tuple(StatesObserver(part, query.dtype, part is parts[-1], size, units, query.quantity) for part in parts)


class StatesPlan(LayerPlan[TextStates]):
    """The plan to read the states of all texts of a query.

    Raises InvalidArgument for a text that is too long or holds no token, and for spans as `TextStates` does.
    """

    def __init__(
        self, query: StatesQuery, tokenizer: TextTokenizer, dimensions: tuple[int, ...], fields: Sequence[str] = ()
    ) -> None:
        """`dimensions`: those of a piece's values; see `state_quantities.dimensions`. `fields` are the texts' in the request,
        "inputs[0]" and so on unless given."""
        fields = fields or [f"inputs[{index}]" for index in range(len(query.inputs))]
        prompt, longest, left_out = "", tokenizer.max_tokens, 0
        if query.declared is not None:
            prompt, longest = query.declared.prompt, min(longest, query.declared.longest or longest)
            left_out = 0 if query.declared.pools_prompt else prompt_tokens(prompt, tokenizer)
        inputs = [(prompt + given.text, given.pair) for given in query.inputs]
        reserve = tokenizer.max_tokens - longest
        marked = [() if prompt else given.spans for given in query.inputs]
        read = read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate, reserve=reserve, words=marked)
        texts = zip(query.inputs, read, (f"spans[{index}]" for index in range(len(fields))), strict=True)
        super().__init__([TextStates(query, given, one, tokenizer, dimensions, field, left_out) for given, one, field in texts])


def prompt_tokens(prompt: str, tokenizer: TextTokenizer) -> int:
    """Returns the number of tokens of a prompt, the special ones before it included, as sentence-transformers counts them; 0
    without a prompt."""
    if not prompt:
        return 0
    among = tokenizer.encode(prompt).encoding.sequence_ids
    return len(among) - (among[-1] is None)
