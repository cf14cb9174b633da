"""Projects hidden states to what a layer's heads read."""

from __future__ import annotations

import torch

from bertscope_service.encoders.torch.architectures.architecture import Architecture


def project(
    architecture: Architecture, layer: int, queries: torch.Tensor, hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns queries of some positions, keys and values of all: [rows, heads, n, head_size] each, of states [rows, n,
    hidden_size]."""

    def by_head(projected: torch.Tensor) -> torch.Tensor:
        return projected.view(*projected.shape[:2], -1, architecture.head_size).transpose(1, 2)

    query, key, value = architecture.projections(layer)
    return by_head(query(queries)), by_head(key(hidden)), by_head(value(hidden))
