"""Scores some entries of the vocabulary: most of a small model's masked-LM head, and of its gradient, is the other entries."""

from __future__ import annotations

import torch

from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.packing import PackedLinear


def decoder_rows(architecture: Architecture) -> torch.Tensor | None:
    """Returns the weight of the masked-LM head's decoder, [vocabulary_size, size]; None if its rows can't be read. Those of a
    packed one can if embeddings are the same, which takes a copy to see."""
    if not architecture.in_stream:
        return None
    decoder = architecture.head_modules()[3]
    if isinstance(decoder, PackedLinear):
        tied: torch.Tensor = architecture.model.get_input_embeddings().weight
        return tied if torch.equal(decoder.packed.to_dense(), tied) else None
    weight = getattr(decoder, "weight", None)
    return weight if isinstance(weight, torch.Tensor) else None


def predict_entries(
    hidden: torch.Tensor, architecture: Architecture, rows: torch.Tensor | None, ids: torch.Tensor
) -> torch.Tensor:
    """Applies the masked-LM head for some entries, int64 [n, C]: [n, hidden_size] -> [n, C]. `rows` are `decoder_rows`; without
    them, all entries are scored."""
    if rows is None:
        return architecture.predict(hidden).gather(1, ids)
    dense, activation, norm, _ = architecture.head_modules()
    scores = torch.einsum("nh,nch->nc", norm(activation(dense(hidden))), rows[ids])
    bias = architecture.decoder_bias()
    return scores if bias is None else scores + bias[ids]
