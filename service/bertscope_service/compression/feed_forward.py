"""Removes units of the feed-forward networks from the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from bertscope_service.checkpoints.steps import Applied, Criterion, RemoveFeedForward
from bertscope_service.compression.importance import unit_importance
from bertscope_service.compression.working_copy import WorkingCopy
from bertscope_service.encoders.torch.architectures.architecture import Network


def remove_units(copy: WorkingCopy, step: RemoveFeedForward, report: Callable[[], None]) -> Applied:
    """Removes the least important units of every network: equally many of each, so that the config can describe the result.

    `report` is called regularly and may raise to abandon. Raises InvalidArgument for a text that has no word to mask.
    """
    network = copy.parts.network
    size = network.size
    found = list(_networks(copy, network))
    before = int(getattr(copy.config, size))
    removed = min(before - 1, max(1, round(step.share * before)))
    if step.criterion is Criterion.IMPORTANCE:
        scores = unit_importance(copy, step.texts, [out for _, out in found], f"{step.name}.texts", report)
    else:
        scores = [magnitude(into, out, network.fused) for into, out in found]
    for (into, out), score in zip(found, scores, strict=True):
        kept = score.sort(stable=True).indices[removed:].sort().values
        _cut(into, out, kept, network.fused)
    setattr(copy.config, size, before - removed)
    words = f"removed {removed} of {before} feed-forward units of every layer, by {step.criterion.value}"
    return Applied(step.name, words, {"units_before": before, "units_after": before - removed})


def magnitude(into: Sequence[torch.nn.Linear], out: torch.nn.Linear, fused: int) -> torch.Tensor:
    """Returns the product of the norms of each unit's incoming and outgoing weights, float32 [units]."""
    weights = torch.cat([linear.weight.detach().float().unflatten(0, (fused, -1)) for linear in into])
    incoming: torch.Tensor = weights.square().sum(dim=(0, 2)).sqrt()
    outgoing: torch.Tensor = out.weight.detach().float().norm(dim=0)
    return incoming * outgoing


def _networks(copy: WorkingCopy, network: Network) -> Iterator[tuple[list[torch.nn.Linear], torch.nn.Linear]]:
    """Yields the linear layers of every network; a network that several layers share is yielded once."""
    seen: set[int] = set()
    parts = copy.parts
    for layer in parts.layers:
        others = () if parts.more_networks is None else layer.get_submodule(parts.more_networks)
        for holder in (layer, *others):
            if id(holder) not in seen:
                seen.add(id(holder))
                yield [holder.get_submodule(path) for path in network.into], holder.get_submodule(network.out)


def _cut(into: Sequence[Any], out: Any, kept: torch.Tensor, fused: int) -> None:
    """Keeps only some units."""

    def select(values: torch.Tensor) -> torch.nn.Parameter:
        chosen = values.detach().unflatten(0, (fused, -1)).index_select(1, kept).flatten(0, 1)
        return torch.nn.Parameter(chosen, requires_grad=False)

    for linear in into:
        linear.weight = select(linear.weight)
        if linear.bias is not None:
            linear.bias = select(linear.bias)
        linear.out_features = linear.weight.shape[0]
    out.weight = torch.nn.Parameter(out.weight.detach().index_select(1, kept), requires_grad=False)
    out.in_features = out.weight.shape[1]
