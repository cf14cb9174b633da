"""Removes attention heads from the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertscope_service.checkpoints.steps import Applied, Heads, RemoveHeads
from bertscope_service.compression.working_copy import WorkingCopy
from bertscope_service.encoders.torch.pruning import remaining, require_prunable, shrink, union, write_pruned


def remove_heads(copy: WorkingCopy, step: RemoveHeads) -> Applied:
    """Removes the heads that a step names, numbered as in the whole model; those that were removed before are ignored.

    Other programs can read the result only if they know `torch_pruning.PRUNED_KEY`. Raises Unsupported for an architecture
    whose heads can't be removed.
    """
    require_prunable(copy.architecture)
    before = copy.pruned
    shrink(copy.model, step.heads, before)
    write_pruned(copy.config, union(before, step.heads))
    total = len(copy.parts.layers) * copy.config.num_attention_heads
    there, left = (total - sum(map(len, gone.values())) for gone in (before, copy.pruned))
    new = {layer: sorted({*heads} - {*before.get(layer, ())}) for layer, heads in sorted(step.heads.items())}
    which = "; ".join(f"layer {layer}: {', '.join(map(str, heads))}" for layer, heads in new.items() if heads)
    words = f"removed {there - left} of {there} heads" + (f" ({which})" if which else "")
    return Applied(step.name, words, {"heads_before": there, "heads_after": left})


def least_important(importance: NDArray[np.float64], gone: Heads, share: float) -> dict[int, tuple[int, ...]]:
    """Returns the share of the existing heads with the least importance [layers, heads], by layer, ascending.

    The share is rounded down, at least one head, never all. Among equals the first are chosen.
    """
    layers, heads = importance.shape
    there = [(layer, head) for layer in range(layers) for head in remaining(heads, gone.get(layer, ()))]
    # 0.3 * 10 is a little less than 3 in floating point.
    count = min(len(there) - 1, max(1, math.floor(share * len(there) + 1e-9)))
    chosen = sorted(there, key=lambda place: importance[place])[:count]
    return _by_layer(chosen)


def _by_layer(places: Sequence[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for layer, head in sorted(places):
        found[layer] = (*found.get(layer, ()), head)
    return found
