"""Shows the attention maps of a batch, layer by layer, to reductions that run beside the layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State

LayerWatcher = Callable[[int, torch.Tensor], None]
"""Receives a layer and its maps, float32 [rows, heads, length, length], padding included; only valid during the call."""

TINY = float(np.finfo(np.float32).tiny)
"""Smaller weights count as 0 in entropies."""

FEW_THREADS = 3
"""Up to so many threads, numpy takes logarithms faster on one of them than PyTorch on all."""


def run_layers(encoder: Encoder, state: State, layers: Collection[int], edits: BatchEdits | None, see: LayerWatcher) -> None:
    """Runs all layers up to the highest of `layers`, and passes the maps of these layers to `see`, in ascending order."""
    encoder.advance(state, max(layers) + 1, edits, {layer: partial(see, layer) for layer in layers})


def reduce_layers(
    encoder: Encoder, state: State, edits: BatchEdits | None, reduce: Callable[[torch.Tensor], tuple[torch.Tensor, ...]]
) -> tuple[torch.Tensor, ...]:
    """Runs all layers. Returns the tensors that `reduce` makes of each layer's maps, stacked: [layers, ...] each."""
    found: list[tuple[torch.Tensor, ...]] = []

    def see(_: int, maps: torch.Tensor) -> None:
        found.append(reduce(maps))

    run_layers(encoder, state, range(encoder.shape.layers), edits, see)
    return tuple(torch.stack(tensors) for tensors in zip(*found, strict=True))


def slices(sizes: Iterable[int]) -> list[slice]:
    """Returns the places of consecutive parts of these sizes."""
    return [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]


def maps_at_a_time(device: torch.device, size: int) -> int:
    """Returns how many maps of `size` numbers to reduce at a time, at least one."""
    return max(1, size_limits(device).map_bytes // (4 * size))


def row_entropies(values: torch.Tensor) -> torch.Tensor:
    """Returns - sum x ln x over the last dimension of float32 numbers that are not negative, in nats if they sum to 1."""
    logarithms = values.clamp_min(TINY)
    if values.device.type == "cpu" and torch.get_num_threads() <= FEW_THREADS:
        np.log(logarithms.numpy(), out=logarithms.numpy())
    else:
        logarithms.log_()
    return -logarithms.mul_(values).sum(dim=-1)
