"""Defines the hidden states of a text, the request for them, and how their stream is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.representations.lens import LensInput
from bertscope.rpc.assembly import Assembler
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.v1 import representation_states_pb2 as states_pb2
from bertscope.v1.common_pb2 import TextInput
from bertscope.v1.representation_states_pb2 import ExtractHiddenStatesRequest, StatesHeader
from bertscope.values import validation
from bertscope.values.choices import StatePooling, StateQuantity, StateUnit
from bertscope.values.display import record
from bertscope.values.messages import (
    DATA_TYPES,
    Interventions,
    Numbers,
    enum_name,
    head_interventions,
    provenance,
    token,
    values,
    with_items,
)
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Token

__all__ = ["HiddenStates", "StatesInput"]

UNIT, POOLING, QUANTITY = "STATE_UNIT_", "STATE_POOLING_", "STATE_QUANTITY_"
UNITS = values(StateUnit, states_pb2.StateUnit, UNIT)
QUANTITIES = values(StateQuantity, states_pb2.StateQuantity, QUANTITY)
POOLINGS = values(StatePooling, states_pb2.StatePooling, POOLING)


@record
class StatesInput(LensInput):
    """A text of which some parts have a row of states each: `unit="span"`.

    >>> StatesInput("Paris is the capital of France.", [(0, 5), (24, 30)]).parts
    (Span(start=0, end=5, segment=0), Span(start=24, end=30, segment=0))
    """


@record(eq=False)
class HiddenStates:
    """The hidden states of one text. Compared by identity, as numpy arrays have no single truth value."""

    input_index: int
    """Index of the text among the call's inputs."""
    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    tokens: tuple[Token, ...]
    """The unit of each row: a piece or a word, special tokens included, or a span; empty for a text, which has one row."""
    states: npt.NDArray[np.floating[Any]]
    """[layers, rows, hidden_size], float32 or float16; rows are longer if the model declares several poolings. Head contexts
    are [layers, rows, heads, head_size], feed-forward activations [layers, rows, activations]."""
    layers: tuple[int, ...]
    """Layer of each slice along the first dimension: of states, 0 is the embeddings, k the output of layer
    k - 1."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the states."""
    unit: str = "piece"
    """The unit of a row: "piece", "word", "span" or "text"."""
    pooling: str = ""
    """How the pieces of a row were joined; empty for pieces."""
    quantity: str = "hidden"
    """The quantity that was read: "hidden", "head_contexts" or "feed_forward_activations"."""

    def layer(self, layer: int) -> npt.NDArray[np.floating[Any]]:
        """Returns the states of one layer by its number (not by its place in the array): [rows, hidden_size], and of the other
        quantities [rows, ...].

        Raises KeyError for a layer that the call did not request.
        """
        if layer not in self.layers:
            raise KeyError(f"layer {layer}: the states are of layers {self.layers}")
        result: npt.NDArray[np.floating[Any]] = self.states[self.layers.index(layer)]
        return result


class StatesAssembler(Assembler[StatesHeader, HiddenStates]):
    """The state of one ExtractHiddenStates stream."""

    what = "states"

    def announced(self, header: StatesHeader) -> common_pb2.Tensor:
        shape, rows = tuple(header.states.shape), len(header.tokens) or 1
        dimensions = 4 if header.quantity == states_pb2.STATE_QUANTITY_HEAD_CONTEXTS else 3
        if len(shape) != dimensions or shape[:2] != (len(header.layers), rows):
            raise InvalidReply(
                f"the server announced states of shape {list(shape)} for {len(header.layers)} layers and {rows} rows"
            )
        asked = self._request
        if (header.unit, header.pooling, header.quantity) != (asked.unit, asked.pooling, asked.quantity):
            raise InvalidReply("the server announced states of another unit, pooling or quantity than were asked for")
        return header.states

    def result(self, asked: TextInput, header: StatesHeader, values: npt.NDArray[np.floating[Any]]) -> HiddenStates:
        return HiddenStates(
            input_index=header.input_index,
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            tokens=tuple(map(token, header.tokens)),
            states=values,
            layers=tuple(header.layers),
            truncated_tokens=header.truncated_tokens,
            provenance=provenance(header.provenance),
            unit=enum_name(states_pb2.StateUnit, header.unit, UNIT),
            pooling=enum_name(states_pb2.StatePooling, header.pooling, POOLING) if header.pooling else "",
            quantity=enum_name(states_pb2.StateQuantity, header.quantity, QUANTITY),
        )


def extract_hidden_states_request(
    *,
    model: str | Model | None,
    layers: Numbers | None,
    unit: str,
    pooling: str | None,
    quantity: str = "hidden",
    dtype: str,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> ExtractHiddenStatesRequest:
    """Returns the request of ExtractHiddenStates, without its inputs."""
    return ExtractHiddenStatesRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        unit=validation.choice("unit", unit, UNITS),
        pooling=_pooling(unit, pooling),
        quantity=validation.choice("quantity", quantity, QUANTITIES),
        dtype=validation.choice("dtype", dtype, DATA_TYPES),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def _pooling(unit: str, pooling: str | None) -> states_pb2.StatePooling.ValueType:
    """Returns the pooling: the mean unless set, unspecified for pieces."""
    if pooling is None:
        return states_pb2.STATE_POOLING_UNSPECIFIED if unit == "piece" else states_pb2.STATE_POOLING_MEAN
    found: states_pb2.StatePooling.ValueType = validation.choice("pooling", pooling, POOLINGS)
    return found


def with_texts(request: ExtractHiddenStatesRequest, texts: Sequence[lens_pb2.LensInput]) -> ExtractHiddenStatesRequest:
    """Returns the request with some texts or pairs, and their parts if the unit is a span or any are marked."""
    inputs = [TextInput(text=one.text, text_pair=one.text_pair if one.HasField("text_pair") else None) for one in texts]
    whole = with_items(request, "inputs", inputs)
    if request.unit == states_pb2.STATE_UNIT_SPAN or any(one.spans for one in texts):
        whole.spans.extend(states_pb2.TextSpans(spans=one.spans) for one in texts)
    return whole
