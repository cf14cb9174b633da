"""The steps of a batch without padding that CUDA graphs capture: they launch the same kernels whatever the batch."""

from __future__ import annotations

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.projections import run_narrow
from bertscope_service.encoders.unpadded import Layout, Tokens

MOST_ENTRIES = 100
"""The entries that are found for each mask, however few were asked for."""

SCORES_SHARE = 4
"""The share of the scores that a device may hold at a time: a graph keeps their memory as long as the model is there."""


def run_layers(architecture: Architecture, layers: range, hidden: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Returns the states after some layers, of those before them: [tokens, hidden_size] both."""
    layout = Layout(tokens, tokens, varlen=True)
    # A new tensor: what layers keep for the one before was computed from other positions.
    places = tokens.positions.view(1, -1) if architecture.reads_positions else None
    states = hidden[None]
    for layer in layers:
        states = architecture.run_layer(layer, states, None, LayerRun(layout=layout), places)
    return states[0]


def read_masks(
    architecture: Architecture, hidden: torch.Tensor, tokens: Tokens, masks: torch.Tensor, queries: Tokens
) -> torch.Tensor:
    """Returns the ids of the likeliest entries at some tokens, the likeliest first, and the bits of the natural logarithms of
    their probabilities (float32): int32 [n, 2, MOST_ENTRIES], or of all entries of a smaller vocabulary.

    hidden: states before the last layer, [tokens, hidden_size], which lie as `tokens` says. masks: the tokens to read, int64
    [n], row by row as `queries` says.
    """
    layer = len(architecture.layers) - 1
    if architecture.in_parts:
        run = LayerRun(layout=Layout(queries, tokens, varlen=True))
        states = run_narrow(architecture, layer, hidden.index_select(0, masks)[None], hidden[None], run)[0]
    else:
        states = run_layers(architecture, range(layer, layer + 1), hidden, tokens).index_select(0, masks)
    row_bytes = 4 * int(architecture.model.config.vocab_size)
    found = []
    for some in states.split(max(1, size_limits(hidden.device).logits_bytes // SCORES_SHARE // row_bytes)):
        scores = architecture.predict(some).float()
        ids = scores.topk(min(MOST_ENTRIES, scores.shape[1]), dim=-1).indices
        logs = scores.log_softmax(dim=-1).gather(1, ids)
        found.append(torch.stack((ids.int(), logs.view(torch.int32)), dim=1))
    return torch.cat(found)
