"""Runs layers on the real tokens of a batch alone."""

from __future__ import annotations

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.graph_rooms import RoomSize
from bertscope_service.encoders.torch.layer_graphs import LayerGraphs
from bertscope_service.encoders.torch.projections import run_narrow
from bertscope_service.encoders.unpadded import Layout, Tokens, UnpaddedStates

WORTH_UNPADDING = 0.1
"""Without a kernel for rows of different lengths, layers run without padding if that is more than this share of the places."""


class UnpaddedLayers:
    """The layers of an architecture that `unpads`; `varlen`: whether attention has a kernel for rows of different lengths."""

    def __init__(self, architecture: Architecture, varlen: bool) -> None:
        self._architecture = architecture
        self.varlen = varlen
        self.graphs: LayerGraphs | None = None

    def capture(self, dtype: torch.dtype, device: torch.device, *, masked_lm: bool) -> None:
        """Captures CUDA graphs of the layers, and of the masked-LM head if there is one, where layers have the kernel and heads
        in every layer; dtype: of hidden states."""
        architecture = self._architecture
        if self.varlen and all(architecture.kept.values()) and len(architecture.layers) > 1:
            self.graphs = LayerGraphs(architecture, dtype, device)
            self.graphs.capture(masked_lm=masked_lm)

    @property
    def graph_sizes(self) -> tuple[RoomSize, ...]:
        """The sizes of batches that the captured graphs have room for."""
        return () if self.graphs is None else self.graphs.sizes

    def run_graph(self, state: State) -> None:
        """Runs all layers but the last by a graph, if one fits; from the embeddings, without gates, watchers and gradients."""
        if self.graphs is not None and (found := self.graphs.run(state)) is not None:
            found.put(state)
            state.layer = self.graphs.layers.stop

    def worth(self, state: State) -> bool:
        """Returns whether a batch runs faster without padding."""
        if self.varlen:
            return True
        return sum(state.lengths) <= (1 - WORTH_UNPADDING) * max(state.lengths) * len(state.lengths)

    def run(self, state: State, run: LayerRun, only: torch.Tensor | None) -> None:
        """Runs the state's layer, but for counting it; `only` as in `Encoder.advance`. Nobody may watch the layer."""
        layer, states, architecture = state.layer, UnpaddedStates.of(state), self._architecture
        tokens, hidden = states.tokens, states.hidden[None]
        run.layout = Layout(tokens, tokens, self.varlen)
        if only is not None and only.shape[1] < tokens.longest and architecture.in_parts:
            narrow = tokens.pick(states.hidden, only)
            run.layout = Layout(Tokens((only.shape[1],) * len(only), tokens.device), tokens, self.varlen)
            state.hidden = run_narrow(architecture, layer, narrow, hidden, run)
            return
        places = tokens.positions if architecture.reads_positions else None
        output = architecture.run_layer(layer, hidden, None, run, places)[0]
        if only is None:
            UnpaddedStates(tokens, output).put(state)
        else:
            state.hidden = tokens.pick(output, only)
