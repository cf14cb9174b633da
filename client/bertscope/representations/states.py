"""Defines the hidden states of a text, the request for them, and how their stream is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope import _validation
from bertscope._display import short_repr
from bertscope._messages import DATA_TYPES, Interventions, Numbers, head_interventions, provenance, token
from bertscope.errors import InvalidReply
from bertscope.extraction.assembly import Assembler
from bertscope.models import Model, model_name
from bertscope.results import Provenance, Token
from bertscope.v1 import common_pb2
from bertscope.v1.representation_states_pb2 import ExtractHiddenStatesRequest, StatesHeader


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """The hidden states of one text. Compared by identity, as numpy arrays have no single truth value."""

    __repr__ = short_repr

    input_index: int
    """Index of the text among the call's inputs."""
    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    tokens: tuple[Token, ...]
    """Tokens of the rows, special ones included."""
    states: npt.NDArray[np.floating[Any]]
    """[layers, tokens, hidden_size], float32 or float16."""
    layers: tuple[int, ...]
    """Layer of each slice along the first dimension: 0 is the embeddings, k the output of layer k - 1."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the states."""

    def layer(self, layer: int) -> npt.NDArray[np.floating[Any]]:
        """Returns the states of one layer by its number (not by its place in the array), [tokens, hidden_size].

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
        shape = tuple(header.states.shape)
        if len(shape) != 3 or shape[:2] != (len(header.layers), len(header.tokens)):
            raise InvalidReply(
                f"the server announced states of shape {list(shape)} for {len(header.layers)} layers and "
                f"{len(header.tokens)} tokens"
            )
        return header.states

    def result(self, asked: common_pb2.TextInput, header: StatesHeader, values: npt.NDArray[np.floating[Any]]) -> HiddenStates:
        return HiddenStates(
            input_index=header.input_index,
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            tokens=tuple(map(token, header.tokens)),
            states=values,
            layers=tuple(header.layers),
            truncated_tokens=header.truncated_tokens,
            provenance=provenance(header.provenance),
        )


def extract_hidden_states_request(
    *,
    model: str | Model | None,
    layers: Numbers | None,
    dtype: str,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> ExtractHiddenStatesRequest:
    """Returns the request of ExtractHiddenStates, without its inputs."""
    return ExtractHiddenStatesRequest(
        model=model_name("model", model),
        layers=_validation.uint32s("layers", layers),
        dtype=_validation.choice("dtype", dtype, DATA_TYPES),
        interventions=head_interventions(interventions),
        reference_texts=_validation.texts("reference_texts", reference_texts),
        truncate=_validation.flag("truncate", truncate),
    )
