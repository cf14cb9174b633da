"""Whole layers removed."""

from __future__ import annotations

import torch

from bertscope_service.compression.steps import Applied, KeepLayers
from bertscope_service.compression.workpiece import Workpiece
from bertscope_service.encoders.torch_pruning import PRUNED_KEY, write_pruned
from bertscope_service.encoders.torch_tokens import KEPT_SHARES_KEY

LISTS = {"albert": None, "distilbert": "transformer.layer", "modernbert": "layers"}
"""Where the base model keeps its layers, if not under "encoder.layer"; None where layers are runs of shared weights."""

PER_LAYER = ("layer_types", KEPT_SHARES_KEY)
"""Config entries with one value for each layer."""


def keep_layers(piece: Workpiece, step: KeepLayers) -> Applied:
    """Leave only some layers, under new numbers. `step.kept` are there, ascending; ModernBERT's begin with 0 (see plan)."""
    config, model = piece.config, piece.parts.encoder
    path = LISTS.get(piece.architecture, "encoder.layer")
    if path is None:
        raise ValueError(f"{piece.architecture} has no list of layers")
    parent, _, name = path.rpartition(".")
    owner, before = model.get_submodule(parent), len(model.get_submodule(path))
    setattr(owner, name, torch.nn.ModuleList(getattr(owner, name)[layer] for layer in step.kept))
    pruned = piece.pruned
    for entry in PER_LAYER:
        values = getattr(config, entry, None)
        if isinstance(values, (list, tuple)) and len(values) == before:
            setattr(config, entry, [values[layer] for layer in step.kept])
    if hasattr(config, PRUNED_KEY):
        write_pruned(config, {new: pruned[old] for new, old in enumerate(step.kept) if old in pruned})
    config.num_hidden_layers = len(step.kept)
    words = f"kept layers {', '.join(map(str, step.kept))} of {before}"
    return Applied(step.name, words, {"layers_before": before, "layers_after": len(step.kept)})
