"""CUDA graphs of a model's layers: a batch starts all of them with one launch in place of a dozen a layer.

A graph replays kernels at fixed sizes on fixed memory, so there is one for each of some numbers of tokens, and a batch without
padding runs by the next larger one. The tokens that it lacks belong to no row; what is computed for them is never read.
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
from bertscope_service.encoders.unpadded import Layout, Tokens, UnpaddedStates

SIZES: tuple[int, ...] = (
    *(64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096),
    *(6144, 8192, 10_240, 12_288, 14_336, 16_384),
)
"""Tokens of the graphs. The host of an H200 launches the layers of a bert-base in 7 ms, as long as 16,384 tokens compute in
bf16, and those of a bert-large in 12 ms, as long as 8,192 do. Where computing takes longer, so do the tokens that a batch
lacks: large sizes are close to each other."""

TOKENS_A_ROW, MOST_ROWS = 4, 512
"""A graph has room for a row for so many tokens, and for so many rows at most: the kernel of attention starts for each row,
and for one that is empty too. A batch of more rows runs without a graph."""

AGREEMENT = 0.1
"""A graph's states may differ from those of single launches by this share of the largest: half precision rounds in each layer,
and other sizes have other kernels. States of a row that was mistaken for another differ by more."""

logger = logging.getLogger(__name__)

_capturing = threading.Lock()
"""PyTorch captures one graph at a time in a process."""


class Room(Tokens):
    """Memory of a device for the places of up to `size` tokens in rows of up to `longest`, at which a graph reads them."""

    def __init__(self, size: int, longest: int, device: torch.device) -> None:
        super().__init__((min(size, longest),), device)
        self.count = size
        self.rows = min(size // TOKENS_A_ROW, MOST_ROWS)
        self.first = torch.zeros(self.rows + 1, dtype=torch.int32, device=device)
        self.places = torch.zeros((1, size), dtype=torch.int64, device=device)

    @property
    def starts(self) -> torch.Tensor:
        return self.first

    @property
    def positions(self) -> torch.Tensor:
        return self.places

    def fill(self, tokens: Tokens, *, positions: bool) -> None:
        """Copies the places of a batch; rows that it lacks are empty. `positions`: whether layers read them."""
        end = len(tokens.lengths) + 1
        self.first[:end].copy_(tokens.starts)
        self.first[end:].fill_(tokens.count)
        if positions:
            self.places[:, : tokens.count].copy_(tokens.positions)


@dataclass(frozen=True, slots=True)
class LayerGraph:
    """A captured graph with its room, and the states [size, hidden_size] that it reads and overwrites."""

    graph: torch.cuda.CUDAGraph
    room: Room
    hidden: torch.Tensor


class LayerGraphs:
    """The graphs of all layers of an architecture but the last, which reads the asked positions alone."""

    def __init__(self, architecture: Architecture, longest: int, dtype: torch.dtype, device: torch.device) -> None:
        """`longest`: the most tokens of a row. dtype: of hidden states."""
        self._architecture = architecture
        self._longest = longest
        self._dtype = dtype
        self._device = device
        self._graphs: list[LayerGraph] = []

    @property
    def layers(self) -> int:
        """The number of layers that a graph runs."""
        return len(self._architecture.layers) - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of the captured graphs, ascending."""
        return tuple(len(graph.hidden) for graph in self._graphs)

    @torch.no_grad()
    def capture(self, size: int) -> None:
        """Captures the graphs of all sizes, on the device's thread. `size`: of hidden states. Without memory for them, or if
        they don't give what single launches do, there are none; the log says so."""
        pool = None
        found: list[LayerGraph] = []
        try:
            with _capturing:
                stream = torch.cuda.Stream(self._device)
                hidden = torch.empty((max(SIZES), size), dtype=self._dtype, device=self._device)
                for tokens in reversed(SIZES):
                    found.append(self._captured(hidden[:tokens], stream, pool))
                    pool = found[-1].graph.pool()
        except Exception as error:  # noqa: BLE001 - whatever it is, the layers run without graphs
            logger.warning("layers run without CUDA graphs on %s: %s", self._device, error)
            found.clear()
            release_cache()
        self._graphs = found[::-1]

    def _captured(self, hidden: torch.Tensor, stream: torch.cuda.Stream, pool: Any) -> LayerGraph:
        """Captures a graph on states [tokens, size], which all graphs share: one runs at a time."""
        tokens = len(hidden)
        room, count = Room(tokens, self._longest, self._device), min(tokens, self._longest)
        one = Tokens((count,), self._device)
        room.fill(one, positions=self._architecture.reads_positions)
        hidden.copy_(torch.arange(hidden.numel(), dtype=torch.float32, device=self._device).sin().view_as(hidden))
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._run(room, hidden)  # libraries prepare at a first run what they may not at a capture
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            hidden.copy_(self._run(room, hidden))
        expected = self._run(one, hidden[:count])
        graph.replay()
        wrong = float((hidden[:count] - expected).abs().max()) / max(1e-6, float(expected.abs().max()))
        if not wrong <= AGREEMENT:
            raise RuntimeError(f"a graph of {tokens} tokens gives other states, by {wrong:.2g} of the largest")
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
        fitting = (one for one in self._graphs if tokens.count <= len(one.hidden) and len(tokens.lengths) <= one.room.rows)
        if (graph := next(fitting, None)) is None:
            return None
        graph.hidden[: tokens.count].copy_(states.hidden)
        graph.room.fill(tokens, positions=self._architecture.reads_positions)
        graph.graph.replay()
        # The next batch overwrites them.
        return UnpaddedStates(tokens, graph.hidden[: tokens.count].clone())
