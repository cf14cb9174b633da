"""Removes heads from the weights of a transformers model.

A layer that lacks the rows of some heads in its query, key and value, and their columns in its output projection, computes the
same as the whole layer with the gates of those heads at zero. The layers of transformers 5 derive their number of heads from
the width of these projections, so that nothing else changes; `config.num_attention_heads` stays the original number.

Heads always keep their numbers in the whole model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.errors import Unsupported

PRUNED_KEY = "bertscope_pruned_heads"
"""The key in config.json for the heads that the weights lack: {"3": [1, 4]}. transformers itself does not know this key and
can't read such weights."""

Heads = Mapping[int, Sequence[int]]
"""Heads by layer."""


def prunable(architecture: str) -> bool:
    """Checks that heads can be removed from the weights of an architecture."""
    return ARCHITECTURES[architecture].unprunable is None


class NoHeads(torch.nn.Module):
    """The attention of a layer without heads: an empty context, or the output projection's bias if it includes the
    projection."""

    def __init__(self, name: str, projection: torch.nn.Module | None) -> None:
        """The name preserves the path of the projection's weights in a file."""
        super().__init__()
        self.name = name
        if projection is not None:
            self.add_module(name, projection)

    def forward(self, hidden: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor, None]:
        context = hidden.new_empty((*hidden.shape[:-1], 0))
        return (getattr(self, self.name)(context) if hasattr(self, self.name) else context), None


class OnlyBias(torch.nn.Module):
    """An output projection without heads: its bias at every position."""

    bias: torch.nn.Parameter | None

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.size = linear.out_features
        self.register_parameter("bias", linear.bias)

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        nothing = context.new_zeros((*context.shape[:-1], self.size))
        return nothing if self.bias is None else nothing + self.bias


def require_prunable(architecture: str) -> None:
    """Raises Unsupported for an architecture whose heads can't be removed."""
    why = ARCHITECTURES[architecture].unprunable
    if why is not None:
        message = f"heads of {architecture} models can't be removed: {why}; use interventions instead"
        raise Unsupported(message, "PRUNING_UNSUPPORTED", architecture=architecture)


def shrink(model: Any, heads: Heads, gone: Heads | None = None) -> None:
    """Removes heads from a transformers model, in place; `gone` are those that it lacks already. Works on the meta device too.

    Raises Unsupported for an architecture whose heads can't be removed.
    """
    kind, count = model.config.model_type, model.config.num_attention_heads
    require_prunable(kind)
    parts = ARCHITECTURES[kind](model)
    for layer, removed in heads.items():
        present = remaining(count, (gone or {}).get(layer, ()))
        places = [place for place, head in enumerate(present) if head not in removed]
        if len(places) < len(present):
            _shrink_layer(parts.layers[layer], parts, places, len(present))


def _shrink_layer(layer: Any, parts: Architecture, places: list[int], count: int) -> None:
    """Keeps only the heads at some places, of `count` present ones."""
    output = layer.get_submodule(parts.output)
    if not places:
        inside = parts.output.startswith(f"{parts.attention}.")
        _replace(layer, parts.output, only_bias := OnlyBias(output))
        _replace(layer, parts.attention, NoHeads(parts.output.rpartition(".")[2], only_bias if inside else None))
        return
    for name in parts.inputs:
        linear = layer.get_submodule(parts.attention).get_submodule(name)
        linear.weight = _select(linear.weight, 0, (parts.fused, count, -1), places)
        linear.out_features = linear.weight.shape[0]
        if linear.bias is not None:
            linear.bias = _select(linear.bias, 0, (parts.fused, count, -1), places)
    output.weight = _select(output.weight, 1, (1, count, -1), places)
    output.in_features = output.weight.shape[1]


def _select(weights: torch.nn.Parameter, axis: int, split: tuple[int, int, int], places: list[int]) -> torch.nn.Parameter:
    """Returns the places of some heads along an axis that is made of (projections, heads, head_size)."""
    index = torch.tensor(places, dtype=torch.int64, device=weights.device)
    chosen = weights.detach().unflatten(axis, split).index_select(axis + 1, index).flatten(axis, axis + 2)
    return torch.nn.Parameter(chosen, requires_grad=weights.requires_grad)


def _replace(layer: Any, path: str, module: torch.nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(layer.get_submodule(parent), name, module)


def shrunk(kind: type[Any], heads: Heads) -> type[Any]:
    """Returns a subclass of a transformers class whose models are made without some heads, so that it reads weights that lack
    them."""
    if not heads:
        return kind

    def make(self: Any, config: Any, *arguments: Any, **options: Any) -> None:
        kind.__init__(self, config, *arguments, **options)
        shrink(self, heads)

    # transformers writes the class name into config.json and chooses by it and the module.
    return type(kind.__name__, (kind,), {"__init__": make, "__module__": kind.__module__})


def remaining(count: int, gone: Sequence[int]) -> tuple[int, ...]:
    """Returns the heads of a layer of `count` heads, except the removed ones."""
    return tuple(head for head in range(count) if head not in gone)


def union(one: Heads, other: Heads) -> dict[int, tuple[int, ...]]:
    """Returns the heads of both, ascending."""
    layers = sorted({*one, *other})
    return {layer: tuple(sorted({*one.get(layer, ()), *other.get(layer, ())})) for layer in layers}


def read_pruned(config: Any) -> dict[int, tuple[int, ...]]:
    """Returns the removed heads in a config, ascending. Raises ValueError, with a message for users, if it is malformed."""
    written = getattr(config, PRUNED_KEY, None)
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise ValueError(f"{PRUNED_KEY} is not an object of layers and heads")
    found = {}
    for key, heads in written.items():
        if str(key) not in map(str, range(config.num_hidden_layers)):
            raise ValueError(f"{PRUNED_KEY} names layer {key!r}; there are layers 0 to {config.num_hidden_layers - 1}")
        known = isinstance(heads, list) and all(type(head) is int and 0 <= head < config.num_attention_heads for head in heads)
        if not known or len(set(heads)) < len(heads):
            last = config.num_attention_heads - 1
            raise ValueError(f"{PRUNED_KEY} of layer {key} is {heads!r}; list heads 0 to {last}, each once")
        if heads:
            found[int(key)] = tuple(sorted(heads))
    if found and not prunable(config.model_type):
        raise ValueError(f"{PRUNED_KEY} names heads, and those of {config.model_type} models can't be removed")
    return dict(sorted(found.items()))


def write_pruned(config: Any, heads: Heads) -> None:
    """Writes the removed heads into a config."""
    setattr(config, PRUNED_KEY, {str(layer): list(gone) for layer, gone in heads.items()})
