"""Shows one quantity of attention of a batch, layer by layer: weights, norms, rollout or value zeroing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from functools import partial

import torch

from bertscope_service.analyses.observers.contributions import layer_norms, layer_output_norms, norms, zeroed_values
from bertscope_service.analyses.observers.rollout import Rollout
from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.decomposition import Decomposition, LayerParts, Part, RowParts, decomposition_of
from bertscope_service.encoders.state import State

See = Callable[[int, torch.Tensor], None]
"""Receives a layer and its maps, float32 [rows, heads, length, length], padding included; heads is 1 for a quantity that a
layer has once. Only valid during the call."""


class Quantity(Enum):
    """A number for each pair of tokens; see bertscope.v1.AttentionQuantity."""

    WEIGHTS = "weights"
    NORMS = "norms"
    LAYER_NORMS = "layer_norms"
    LAYER_OUTPUT_NORMS = "layer_output_norms"
    ROLLOUT = "rollout"
    ROLLOUT_WITHOUT_RESIDUAL = "rollout_without_residual"
    VALUE_ZEROING = "value_zeroing"

    @property
    def by_head(self) -> bool:
        """True if each head has its own, False if a layer has one."""
        return self in (Quantity.WEIGHTS, Quantity.NORMS)

    @property
    def rolls_out(self) -> bool:
        """True for the rollouts, which continue from the layers below."""
        return self in (Quantity.ROLLOUT, Quantity.ROLLOUT_WITHOUT_RESIDUAL)


NEEDED: dict[Quantity, tuple[Part, ...]] = {
    Quantity.NORMS: (Part.CONTRIBUTIONS,),
    Quantity.LAYER_NORMS: (Part.CONTRIBUTIONS,),
    Quantity.LAYER_OUTPUT_NORMS: (Part.CONTRIBUTIONS, Part.NORMALISATION),
    Quantity.VALUE_ZEROING: (Part.CONTRIBUTIONS, Part.RERUN),
}
"""The parts of a layer that quantities are made of; the others need only maps."""


def refusal(quantity: Quantity, encoder: Encoder) -> str | None:
    """Returns why a model that shows its attention maps lacks a quantity, with the remedy; None if it has it."""
    needed = NEEDED.get(quantity, ())
    decomposition = decomposition_of(encoder)
    if decomposition is None:
        return f"its layers can't be taken apart in {encoder.runtime}; load it with runtime torch" if needed else None
    return next(filter(None, map(decomposition.refusal, needed)), None)


def run_quantity(
    quantity: Quantity,
    encoder: Encoder,
    state: State,
    stop: int,
    gates: BatchGates | None,
    layers: Collection[int],
    see: See,
    product: torch.Tensor | None = None,
) -> Rollout | None:
    """Runs layers [state.layer, stop), and passes the quantity of each of `layers`, ascending, to `see`.

    `product`: of the rollout so far, if the state is not at the first layer. Returns the rollout, to continue from; None for
    other quantities, which need no memory.
    """
    if quantity is Quantity.WEIGHTS:
        encoder.advance(state, stop, gates, {layer: partial(see, layer) for layer in layers})
        return None
    if quantity.rolls_out:
        rollout = Rollout(encoder.shape, residual=quantity is Quantity.ROLLOUT, product=product)

        def watch(layer: int, maps: torch.Tensor) -> None:
            rolled = rollout.take(layer, maps)
            if layer in layers:
                see(layer, rolled)

        encoder.advance(state, stop, gates, {layer: partial(watch, layer) for layer in range(state.layer, stop)})
        return rollout
    decomposition = decomposition_of(encoder)
    if decomposition is None:
        raise ValueError(f"{encoder.runtime} can't take layers apart")
    for layer in sorted(layers):
        encoder.advance(state, layer, gates)
        parts = decomposition.take_apart(state, gates)
        see(
            layer,
            norms(parts, decomposition, encoder.shape.heads) if quantity.by_head else _of_layer(quantity, parts, decomposition),
        )
    encoder.advance(state, stop, gates)
    return None


def _of_layer(quantity: Quantity, parts: LayerParts, decomposition: Decomposition) -> torch.Tensor:
    """Returns a quantity that a layer has once, [rows, 1, length, length], zeros at padding."""
    layer, weights = parts.layer, parts.weights
    found = weights.new_zeros((len(weights), 1, *weights.shape[2:]))
    reduce: Callable[[RowParts], torch.Tensor]
    if quantity is Quantity.VALUE_ZEROING:
        reduce = partial(zeroed_values, decomposition, layer)
    elif quantity is Quantity.LAYER_NORMS:
        reduce = partial(layer_norms, decomposition.projection(layer))
    else:
        reduce = partial(layer_output_norms, decomposition, layer, decomposition.projection(layer))
    for index, length in enumerate(parts.lengths):
        found[index, 0, :length, :length] = reduce(parts.row(index))
    return found
