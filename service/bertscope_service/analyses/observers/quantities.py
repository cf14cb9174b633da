"""Shows one quantity of attention of a batch, layer by layer: weights, norms, rollouts or value zeroing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from functools import partial

import torch

from bertscope_service.analyses.observers.contributions import (
    encoder_norms,
    layer_norms,
    layer_output_norms,
    nearness,
    norms,
    shares_of_rows,
    zeroed_distances,
)
from bertscope_service.analyses.observers.rollout import Rollout, mixed_maps
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import Decomposition, LayerParts, Part, decomposition_of
from bertscope_service.encoders.edits import BatchEdits
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
    ALTI = "alti"
    GLOBENC = "globenc"

    @property
    def by_head(self) -> bool:
        """True if each head has its own, False if a layer has one."""
        return self in (Quantity.WEIGHTS, Quantity.NORMS)

    @property
    def rolls_out(self) -> bool:
        """True for what is multiplied up, and continues from the layers below."""
        return self in FROM_MAPS or self in (Quantity.ALTI, Quantity.GLOBENC)

    @property
    def is_norm(self) -> bool:
        """True for lengths of vectors, whose rows have no fixed sum."""
        return self in (Quantity.NORMS, Quantity.LAYER_NORMS, Quantity.LAYER_OUTPUT_NORMS)


FROM_MAPS = (Quantity.ROLLOUT, Quantity.ROLLOUT_WITHOUT_RESIDUAL)
"""The rollouts of the maps themselves."""
NEEDED: dict[Quantity, tuple[Part, ...]] = {
    Quantity.NORMS: (Part.CONTRIBUTIONS,),
    Quantity.LAYER_NORMS: (Part.CONTRIBUTIONS,),
    Quantity.LAYER_OUTPUT_NORMS: (Part.CONTRIBUTIONS, Part.NORMALISATION),
    Quantity.VALUE_ZEROING: (Part.CONTRIBUTIONS, Part.RERUN),
    Quantity.ALTI: (Part.CONTRIBUTIONS, Part.NORMALISATION),
    Quantity.GLOBENC: (Part.CONTRIBUTIONS, Part.NORMALISATION, Part.END),
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
    edits: BatchEdits | None,
    layers: Collection[int],
    see: See,
    product: torch.Tensor | None = None,
) -> Rollout | None:
    """Runs layers [state.layer, stop), and passes the quantity of each of `layers`, ascending, to `see`; any quantity but value
    zeroing, which has steps of its own.

    `product`: of the rollout so far, if the state is not at the first layer. Returns the rollout, to continue from; None for
    other quantities, which need no memory.
    """
    if quantity is Quantity.WEIGHTS:
        encoder.advance(state, stop, edits, {layer: partial(see, layer) for layer in layers})
        return None
    rollout = Rollout(product, of_norms=quantity is Quantity.GLOBENC) if quantity.rolls_out else None

    def show(layer: int, maps: torch.Tensor) -> None:
        if rollout is not None:
            rollout.multiply(maps)
        if layer in layers:
            see(layer, maps if rollout is None else rollout.shares())

    needed = range(state.layer, stop) if quantity.rolls_out else sorted(layers)
    if quantity in FROM_MAPS:

        def watch(layer: int, maps: torch.Tensor) -> None:
            heads = len(encoder.shape.heads_of(layer))
            show(layer, mixed_maps(maps, heads, residual=quantity is Quantity.ROLLOUT))

        encoder.advance(state, stop, edits, {layer: partial(watch, layer) for layer in needed})
        return rollout
    decomposition = _decomposition(encoder)
    reduce = _reduction(quantity, encoder.shape.heads)
    for layer in needed:
        encoder.advance(state, layer, edits)
        parts = decomposition.take_apart(state, edits)
        show(layer, reduce(decomposition, parts))
    encoder.advance(state, stop, edits)
    return rollout


def show_shares(
    quantity: Quantity, encoder: Encoder, state: State, layers: Collection[int], edits: BatchEdits | None, see: See
) -> None:
    """Runs all layers up to the highest of `layers`, and passes the quantity of these layers to `see`, in ascending order; rows
    of norms are divided by their sums. Any quantity but value zeroing."""

    def share(layer: int, maps: torch.Tensor) -> None:
        see(layer, shares_of_rows(maps) if quantity.is_norm else maps)

    run_quantity(quantity, encoder, state, max(layers) + 1, edits, layers, share)


def _reduction(quantity: Quantity, heads: int) -> Callable[[Decomposition, LayerParts], torch.Tensor]:
    """Returns the reduction of a layer's parts to its maps."""
    reductions: dict[Quantity, Callable[[Decomposition, LayerParts], torch.Tensor]] = {
        Quantity.NORMS: partial(norms, heads),
        Quantity.LAYER_NORMS: layer_norms,
        Quantity.LAYER_OUTPUT_NORMS: layer_output_norms,
        Quantity.ALTI: nearness,
        Quantity.GLOBENC: encoder_norms,
    }
    return reductions[quantity]


def zero_values(
    encoder: Encoder, state: State, layer: int, edits: BatchEdits | None, tokens: range, distances: torch.Tensor | None
) -> tuple[State, torch.Tensor]:
    """Runs the layers below `layer`, and zeroes the values of some tokens there, one after another; the state has one row.

    `distances`: those of the tokens before, [length, length]. Returns the state after the layer, and the distances so far; the
    state itself stays before the layer.
    """
    encoder.advance(state, layer, edits)
    after = State(state.hidden, state.lengths, state.valid, layer)
    decomposition = _decomposition(encoder)
    parts = decomposition.take_apart(after, edits).some(slice(0, 1))
    return after, zeroed_distances(decomposition, parts, tokens, distances)


def _decomposition(encoder: Encoder) -> Decomposition:
    found = decomposition_of(encoder)
    if found is None:
        raise ValueError(f"{encoder.runtime} can't take layers apart")
    return found
