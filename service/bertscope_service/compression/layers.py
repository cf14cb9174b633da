"""Removes whole layers."""

from __future__ import annotations

import torch

from bertscope_service.checkpoints.steps import Applied, KeepLayers
from bertscope_service.compression.working_copy import WorkingCopy
from bertscope_service.encoders.torch.pruning import PRUNED_KEY, write_pruned
from bertscope_service.encoders.torch.token_elimination import KEPT_SHARES_KEY

PER_LAYER = ("layer_types", KEPT_SHARES_KEY)
"""Config entries with one value for each layer."""


def keep_layers(copy: WorkingCopy, step: KeepLayers) -> Applied:
    """Keeps only some layers, under new numbers. `step.kept` exist, ascending, and begin with 0 where it must stay (see
    plan)."""
    config, model = copy.config, copy.parts.encoder
    path = copy.parts.layer_list
    if path is None:
        raise ValueError(f"{copy.architecture} has no list of layers")
    parent, _, name = path.rpartition(".")
    copy.parts.drop_layers(step.kept)
    owner, before = model.get_submodule(parent), len(model.get_submodule(path))
    setattr(owner, name, torch.nn.ModuleList(getattr(owner, name)[layer] for layer in step.kept))
    pruned = copy.pruned
    for entry in PER_LAYER:
        values = getattr(config, entry, None)
        if isinstance(values, (list, tuple)) and len(values) == before:
            setattr(config, entry, [values[layer] for layer in step.kept])
    if hasattr(config, PRUNED_KEY):
        write_pruned(config, {new: pruned[old] for new, old in enumerate(step.kept) if old in pruned})
    config.num_hidden_layers = len(step.kept)
    words = f"kept layers {', '.join(map(str, step.kept))} of {before}"
    return Applied(step.name, words, {"layers_before": before, "layers_after": len(step.kept)})
