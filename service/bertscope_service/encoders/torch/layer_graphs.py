"""CUDA graphs of a model's layers: a batch starts all of them with one launch in place of a dozen a layer.

A graph replays kernels at fixed sizes on fixed memory, so there is one for each of `ROOMS`, and a batch without padding runs by
the next larger one. The tokens that it lacks belong to no row; what is computed for them is never read.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import torch

from bertscope_service.encoders.device_memory import release_cache
from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.graph_rooms import Room, RoomSize, rooms_for
from bertscope_service.encoders.unpadded import Layout, Tokens, UnpaddedStates

AGREEMENT = 0.1
"""A graph's states may differ from those of single launches by this share of the largest: half precision rounds in each layer,
and other sizes have other kernels. States of a row that was mistaken for another differ by more."""

logger = logging.getLogger(__name__)

_capturing = threading.Lock()
"""PyTorch captures one graph at a time in a process."""


@dataclass(frozen=True, slots=True)
class LayerGraph:
    """A captured graph with its room, and the states [tokens, hidden_size] that it reads and overwrites."""

    graph: torch.cuda.CUDAGraph
    room: Room
    hidden: torch.Tensor


class LayerGraphs:
    """The graphs of all layers of an architecture but the last, which reads the asked positions alone."""

    def __init__(self, architecture: Architecture, dtype: torch.dtype, device: torch.device) -> None:
        """dtype: of hidden states."""
        self._architecture = architecture
        self._dtype = dtype
        self._device = device
        self._graphs: list[LayerGraph] = []

    @property
    def layers(self) -> int:
        """The number of layers that a graph runs."""
        return len(self._architecture.layers) - 1

    @property
    def sizes(self) -> tuple[RoomSize, ...]:
        """What the captured graphs have room for, as `rooms_for` orders it."""
        return tuple(graph.room.size for graph in self._graphs)

    @torch.no_grad()
    def capture(self) -> None:
        """Captures the graphs of all sizes, on the device's thread. Without memory for them, or if they don't give what single
        launches do, there are none; the log says so."""
        pool = None
        found: list[LayerGraph] = []
        sizes = rooms_for(self._architecture.max_tokens())
        numbers = (sizes[-1].tokens, int(self._architecture.model.config.hidden_size))
        try:
            with _capturing:
                stream = torch.cuda.Stream(self._device)
                hidden = torch.empty(numbers, dtype=self._dtype, device=self._device)
                for size in reversed(sizes):
                    found.append(self._captured(size, hidden[: size.tokens], stream, pool))
                    pool = found[-1].graph.pool()
        except Exception as error:  # noqa: BLE001 - whatever it is, the layers run without graphs
            logger.warning("layers run without CUDA graphs on %s: %s", self._device, error)
            found.clear()
            release_cache()
        self._graphs = found[::-1]

    def _captured(self, size: RoomSize, hidden: torch.Tensor, stream: torch.cuda.Stream, pool: Any) -> LayerGraph:
        """Captures a graph on states [tokens, hidden_size], which all graphs share: one runs at a time."""
        room, longest = Room(size, self._device), min(size.tokens // 2, size.longest)
        two = Tokens((longest, longest // 2), self._device)
        room.fill(two.lengths)
        hidden.copy_(torch.arange(hidden.numel(), dtype=torch.float32, device=self._device).sin().view_as(hidden))
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._run(room.tokens, hidden)  # libraries prepare at a first run what they may not at a capture
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            hidden.copy_(self._run(room.tokens, hidden))
        expected = self._run(two, hidden[: two.count])
        graph.replay()
        wrong = float((hidden[: two.count] - expected).abs().max()) / max(1e-6, float(expected.abs().max()))
        if not wrong <= AGREEMENT:
            raise RuntimeError(f"a graph of {size.tokens} tokens gives other states, by {wrong:.2g} of the largest")
        return LayerGraph(graph, room, hidden)

    def _run(self, tokens: Tokens, hidden: torch.Tensor) -> torch.Tensor:
        layout = Layout(tokens, tokens, varlen=True)
        # A new tensor: what layers keep for the one before was computed from other positions.
        places = tokens.positions.view(1, -1) if self._architecture.reads_positions else None
        states = hidden[None]
        for layer in range(self.layers):
            states = self._architecture.run_layer(layer, states, None, LayerRun(layout=layout), places)
        return states[0]

    def run(self, states: UnpaddedStates) -> UnpaddedStates | None:
        """Returns the states of a batch after all layers but the last, from those after the embeddings; None if no graph
        fits."""
        tokens = states.tokens
        if (graph := next((one for one in self._graphs if one.room.fits(tokens.lengths)), None)) is None:
            return None
        graph.hidden[: tokens.count].copy_(states.hidden)
        graph.room.fill(tokens.lengths)
        graph.graph.replay()
        # The next batch overwrites them.
        return UnpaddedStates(tokens, graph.hidden[: tokens.count].clone())
