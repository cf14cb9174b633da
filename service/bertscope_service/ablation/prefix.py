"""The states that changed layers continue from, within a memory budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

from bertscope_service.analyses.observers.prefix import PrefixObserver
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import InvalidArgument
from bertscope_service.groups import within


class Prefix:
    """The states of all rows before one layer after the other, upwards.

    Rows whose states fit into the budget keep them and run only the layers in between. The states of the other rows are
    computed from their embeddings each time, some rows at a time. `passes` counts runs of one layer on one row.
    """

    def __init__(
        self,
        encoder: Encoder,
        sequences: Sequence[TokenSequence],
        sizes: Sequence[int],
        edits: Callable[[int], Edits | None],
        bulk: BulkRunner,
        memory_bytes: int,
    ) -> None:
        """Splits the budget. `sizes` are the bytes of the rows' states, see `state_sizes`; the largest fits into the budget.
        `edits` gives those of each row."""
        self.passes = 0
        self._encoder = encoder
        self._sequences = sequences
        self._edits = edits
        self._bulk = bulk
        self._sizes = sizes
        spare = 0 if sum(sizes) <= memory_bytes else max(memory_bytes // 4, max(sizes))
        keep = next(within(sizes, memory_bytes - spare)) if memory_bytes - spare >= sizes[0] else slice(0)
        self._kept: dict[int, State | None] = dict.fromkeys(range(len(sequences))[keep])
        self._rest = range(len(self._kept), len(sequences))
        self._spare = spare
        self._layer = 0

    async def before(self, layer: int) -> AsyncGenerator[Mapping[int, State], None]:
        """Yields all rows with their states before a layer, in parts; a part is cleared when the next one is requested."""
        if self._kept:
            self.passes += (layer - self._layer) * len(self._kept)
            async for row, state in self._run(layer, list(self._kept)):
                self._kept[row] = state
            self._layer = layer
            states = {row: state for row, state in self._kept.items() if state is not None}
            yield states
            states.clear()  # a caller that still holds the dict must not keep these beside the next ones
        for part in within([self._sizes[row] for row in self._rest], self._spare):
            rows = self._rest[part]
            self.passes += layer * len(rows)
            states = {row: state async for row, state in self._run(layer, rows)}
            yield states
            states.clear()

    async def _run(self, layer: int, rows: Sequence[int]) -> AsyncGenerator[tuple[int, State], None]:
        """Yields the states of some rows before a layer, continuing from their kept states."""
        async for row, (state,) in self._bulk.map(self._groups(layer, rows)):
            yield row, state

    def _groups(self, layer: int, rows: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        for row in rows:
            begun = self._kept.get(row)
            if begun is not None:
                self._kept[row] = None  # otherwise it would stay in memory beside its successor
            yield row, [Row(self._encoder, self._sequences[row], PrefixObserver(layer), self._edits(row), begun)]


def state_sizes(encoder: Encoder, lengths: Sequence[int]) -> list[int]:
    """Returns the bytes of each row's state: hidden state, context of a layer, which is as large, and mean of its values."""
    item = encoder.shape.hidden_size * encoder.dtype.itemsize
    return [(2 * length + 1) * item for length in lengths]


def check_memory(memory_bytes: int, needed: int, what: str = "the states of the longest text") -> None:
    """Raises InvalidArgument if `what` is kept of one row, or pair of rows, doesn't fit into the budget."""
    if memory_bytes < needed:
        message = f"memory_bytes is {memory_bytes} and {what} take {needed}; allow at least that"
        raise InvalidArgument("memory_bytes", message, "MEMORY_TOO_SMALL", needed=needed)
