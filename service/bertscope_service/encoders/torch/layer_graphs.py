"""CUDA graphs of a model: a batch starts all that one has captured with one launch, in place of a dozen a layer.

A graph replays kernels at fixed sizes on fixed memory, so there are some for each of `ROOMS`, and a batch without padding runs
by those of the next larger one. The tokens that it lacks belong to no row; what is computed for them is never read. One graph
embeds tokens and runs all layers but the last, another reads masks, as many as there is room for rows: so the likeliest entries
at masks take a copy to the device, two launches and a copy back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from bertscope_service.encoders.device_memory import release_cache
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.graph_rooms import MOST_MASKS, Room, RoomSize, rooms_for
from bertscope_service.encoders.torch.unpadded_steps import MOST_ENTRIES, read_masks, run_layers
from bertscope_service.encoders.unpadded import Tokens, UnembeddedRows, UnpaddedStates

AGREEMENT = 0.1
"""A graph's numbers may differ from those of single launches by this share of the largest: half precision rounds in each layer,
and other sizes have other kernels. States of a row that was mistaken for another differ by more."""

FEW_ROWS, MANY_ROWS = 4, 64
"""In a room for more than MANY_ROWS rows, a quarter as many masks, or fewer, have a graph of their own: scores of masks that
are not there take as long."""

logger = logging.getLogger(__name__)

_capturing = threading.Lock()
"""PyTorch captures one graph at a time in a process."""


@dataclass(slots=True)
class RoomGraphs:
    """The graphs of a room: that of `layers` writes `hidden` [tokens, hidden_size], which it reads before if embeddings need
    padded rows; those of `masks`, by the most rows that each is for, ascending, read it."""

    room: Room
    hidden: torch.Tensor
    layers: torch.cuda.CUDAGraph
    masks: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)


class LayerGraphs:
    """The graphs of an architecture with heads in every layer. They share the memory of states, of results, and of all that a
    replay holds meanwhile: one runs at a time."""

    def __init__(self, architecture: Architecture, dtype: torch.dtype, device: torch.device) -> None:
        """dtype: of hidden states."""
        self._architecture, self._dtype, self._device = architecture, dtype, device
        self._graphs: list[RoomGraphs] = []
        self._stream: Any = None
        self._pool: Any = None
        self._entries = torch.empty((0, 2, 0), dtype=torch.int32, device="cpu")

    @property
    def layers(self) -> range:
        """The layers that a graph runs: all but the last, which reads the asked positions alone."""
        return range(len(self._architecture.layers) - 1)

    @property
    def sizes(self) -> tuple[RoomSize, ...]:
        """The sizes of rooms whose graphs were captured, as `rooms_for` orders them."""
        return tuple(graphs.room.size for graphs in self._graphs)

    def capture(self, *, masked_lm: bool) -> None:
        """Captures all graphs, on the device's thread. Without memory for them, or if they don't give what single launches do,
        there are none, or none that read masks; the log says so."""
        masked_lm = masked_lm and self._architecture.embeds_unpadded
        if not self._try("layers", self._capture_layers):
            self._graphs = []
        elif masked_lm and not self._try("predictions at masks", self._capture_masks):
            for graphs in self._graphs:
                graphs.masks.clear()

    def _try(self, what: str, capture: Callable[[], None]) -> bool:
        try:
            with _capturing, torch.no_grad():
                # One for all: libraries keep memory for each stream that they run on.
                self._stream = self._stream or torch.cuda.Stream(self._device)
                capture()
        except Exception as error:  # noqa: BLE001 - whatever it is, batches run without graphs
            logger.warning("%s run without CUDA graphs on %s: %s", what, self._device, error)
        else:
            return True
        release_cache()
        return False

    def _capture_layers(self) -> None:
        sizes = rooms_for(self._architecture.max_tokens())
        shape = (sizes[-1].tokens, int(self._architecture.model.config.hidden_size))
        states = torch.empty(shape, dtype=self._dtype, device=self._device)
        for size in reversed(sizes):
            room, hidden = Room(size, self._device), states[: size.tokens]
            layers = self._captured(partial(self._run, room, hidden))
            two = self._fill(room, hidden)
            part = hidden[: two.count]
            expected = self._after(part, two, room.ids[:, : two.count], room.segments[:, : two.count])
            layers.replay()
            _compare(part, expected, size)
            self._graphs.insert(0, RoomGraphs(room, hidden, layers))

    def _capture_masks(self) -> None:
        architecture = self._architecture
        shape = (max(size.rows for size in self.sizes), 2, min(MOST_ENTRIES, int(architecture.model.config.vocab_size)))
        self._entries = torch.empty(shape, dtype=torch.int32, device=self._device)
        for graphs in reversed(self._graphs):
            room, hidden = graphs.room, graphs.hidden
            two = self._fill(room, hidden)
            ones = Tokens((1, 1), self._device)
            expected = read_masks(architecture, hidden[: two.count], two, room.masks[:2], ones)
            for rows in (room.size.rows // FEW_ROWS, room.size.rows)[room.size.rows <= MANY_ROWS :]:
                graphs.masks[rows] = self._captured(partial(self._read, graphs, rows))
                self._entries.zero_()
                graphs.masks[rows].replay()
                _compare(self._entries[:2, 1].view(torch.float32), expected[:, 1].view(torch.float32), room.size)

    def _fill(self, room: Room, hidden: torch.Tensor) -> Tokens:
        """Fills a room and its states with two rows, and returns these."""
        longest = min(room.size.tokens // 2, room.size.longest)
        two = Tokens((longest, longest // 2), self._device)
        ids = np.arange(two.count) % int(self._architecture.model.config.vocab_size)
        room.fill(two.lengths, (ids, np.zeros_like(ids)), ((longest - 1,), (0,)))
        hidden.copy_(torch.arange(hidden.numel(), dtype=torch.float32, device=self._device).sin().view_as(hidden))
        return two

    def _captured(self, launch: Callable[[], object]) -> torch.cuda.CUDAGraph:
        """Captures what a function launches on memory that stays."""
        stream, current = self._stream, torch.cuda.current_stream(self._device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            launch()  # libraries prepare at a first run what they may not at a capture
        current.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            launch()
        self._pool = graph.pool()
        return graph

    def _run(self, room: Room, hidden: torch.Tensor) -> None:
        hidden.copy_(self._after(hidden, room.tokens, room.ids, room.segments))

    def _after(self, hidden: torch.Tensor, tokens: Tokens, ids: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        """Returns the states after `layers`."""
        if self._architecture.embeds_unpadded:
            hidden = self._architecture.embed(ids, segments, None, tokens.positions)[0]
        return run_layers(self._architecture, self.layers, hidden, tokens)

    def _read(self, graphs: RoomGraphs, rows: int) -> None:
        room = graphs.room
        found = read_masks(self._architecture, graphs.hidden, room.rows(rows), room.masks[:rows], room.queries(rows))
        self._entries[:rows].copy_(found)

    def _fitting(self, lengths: Sequence[int], masks: int = 0) -> RoomGraphs | None:
        """Returns the graphs of the smallest room for rows of such lengths, and so many masks; None if there is none."""
        needed = RoomSize.of(lengths, masks)
        return next((graphs for graphs in self._graphs if graphs.room.size.holds(needed)), None)

    def run(self, state: State) -> UnpaddedStates | None:
        """Returns the states of a batch after `layers`, from those before all; None if no graph fits."""
        if (graphs := self._fitting(state.lengths)) is None:
            return None
        if self._architecture.embeds_unpadded:
            if (rows := UnembeddedRows.of(state)) is None:
                return None
            tokens = Tokens(state.lengths, self._device)
            graphs.room.fill(state.lengths, (rows.ids, rows.segments))
            tokens.starts = graphs.room.tokens.starts[: len(state.lengths) + 1].clone()
        else:
            states = UnpaddedStates.of(state)
            tokens = states.tokens
            graphs.room.fill(tokens.lengths)
            graphs.hidden[: tokens.count].copy_(states.hidden)
        graphs.layers.replay()
        # The next batch overwrites them.
        return UnpaddedStates(tokens, graphs.hidden[: tokens.count].clone())

    def likeliest(self, state: State, positions: Sequence[Sequence[int]], top_k: int) -> torch.Tensor | None:
        """See `FindsLikeliest`."""
        counts, rows = list(map(len, positions)), UnembeddedRows.of(state)
        if rows is None or top_k > self._entries.shape[2]:
            return None
        graphs, count = self._fitting(state.lengths, sum(counts)), sum(counts)
        if graphs is None or not graphs.masks or not 0 < min(counts) <= max(counts) <= MOST_MASKS:
            return None
        graphs.room.fill(state.lengths, (rows.ids, rows.segments), positions)
        graphs.layers.replay()
        next(graph for most, graph in graphs.masks.items() if count <= most).replay()
        return self._entries[:count]


def _compare(found: torch.Tensor, expected: torch.Tensor, size: RoomSize) -> None:
    """Raises RuntimeError if a graph gives other numbers than single launches."""
    wrong = float((found - expected).abs().max()) / max(1e-6, float(expected.abs().max()))
    if not wrong <= AGREEMENT:
        raise RuntimeError(f"a graph of {size.tokens} tokens gives other numbers, by {wrong:.2g} of the largest")
