"""Projects hidden states to what a layer's heads read."""

from __future__ import annotations

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.attention import gated_attention


def project(
    architecture: Architecture, layer: int, queries: torch.Tensor, hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns queries of some positions, keys and values of all: [rows, heads, n, head_size] each, of states [rows, n,
    hidden_size]."""

    def by_head(projected: torch.Tensor) -> torch.Tensor:
        return projected.view(*projected.shape[:2], -1, architecture.head_size).transpose(1, 2)

    query, key, value = architecture.projections(layer)
    return by_head(query(queries)), by_head(key(hidden)), by_head(value(hidden))


def run_narrow(
    architecture: Architecture,
    layer: int,
    narrow: torch.Tensor,
    hidden: torch.Tensor,
    run: LayerRun,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs a layer at some positions alone, of an architecture whose layers have two parts: returns their states, of the states
    there, `narrow` [rows, n, hidden_size], and those of all tokens. mask: as `gated_attention` takes it."""
    query, key, value = project(architecture, layer, narrow, hidden)
    return architecture.finish(layer, gated_attention(query, key, value, mask, run=run).flatten(2), narrow)
