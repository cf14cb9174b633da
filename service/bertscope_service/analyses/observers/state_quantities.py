"""Quantities of a layer that a row of states can hold, read while the layers run."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import torch

from bertscope_service.encoders.base import Encoder, ShowsActivations, ShowsHeads
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import untouched
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.state import State


class StateQuantity(Enum):
    """The quantity that is read; see bertscope.v1.StateQuantity."""

    HIDDEN = "hidden"
    HEAD_CONTEXTS = "head_contexts"
    FEED_FORWARD_ACTIVATIONS = "feed_forward_activations"


def dimensions(encoder: Encoder, quantity: StateQuantity) -> tuple[int, ...] | None:
    """Returns the dimensions of a piece's values; None for a quantity that the encoder doesn't show."""
    if quantity is StateQuantity.HIDDEN:
        return (encoder.shape.hidden_size,)
    if quantity is StateQuantity.HEAD_CONTEXTS:
        return (encoder.shape.heads, encoder.head_size) if isinstance(encoder, ShowsHeads) else None
    return (encoder.activation_size,) if isinstance(encoder, ShowsActivations) else None


def show(
    encoder: Encoder,
    state: State,
    layer: int,
    edits: BatchEdits | None,
    quantity: StateQuantity,
    see: Callable[[torch.Tensor], None],
) -> None:
    """Advances a state to a layer and shows the quantity there, [rows, length, size]; heads follow one another in a row.

    States are those at the layer, after which the state is at it; contexts and activations are of the layer, after which it is
    behind it.
    """
    if layer > state.layer:
        encoder.advance(state, layer, edits)
    if quantity is StateQuantity.HIDDEN:
        see(state.hidden)
    elif quantity is StateQuantity.HEAD_CONTEXTS:
        encoder.advance(state, layer + 1, edits, taps={layer: lambda contexts: see(contexts.transpose(1, 2).flatten(2))})
    else:
        edits = untouched(len(state.lengths), encoder) if edits is None else edits
        encoder.advance(state, layer + 1, edits.watching({(Site.ACTIVATIONS, layer): lambda seen: see(seen.flatten(2))}))
