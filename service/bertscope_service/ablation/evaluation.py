"""Measures an objective while heads are changed; layers that several changes share run only once.

A change in layer l leaves layers 0 to l - 1 as they are. The state of every row before layer l is kept, with layer l's own
contexts, which gates act on. All changes of layer l continue from there; then the kept states advance to the next changed
layer. For every head of a 12 x 12 model that is 936 runs of a layer on each text instead of 1,728, and 23 for the baseline and
the states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.ablation.prefix import Prefix, check_memory, state_sizes
from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.encoders.base import Encoder, HeadSet
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.state import State
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.groups import within

Values = NDArray[np.float64]
"""[metrics, items]."""

INLINE_ROWS = 1000
"""Values of fewer rows than this are computed on the loop: waking a thread would take longer."""

HELD_RESULTS = 1_000_000
"""Maximum number of results that are held at a time (0.5 GB): if the rows run in several parts, results wait for the last
part."""


@dataclass(frozen=True, slots=True)
class Change:
    """The replacement for changed heads; `means` [layers, heads, head_size] are needed if anything is replaced by its mean."""

    mode: Mode
    scale: float = 1.0
    means: NDArray[np.float32] | None = None


@dataclass
class Evaluation:
    """An objective on a model. If `reuse` is off, every change runs from the embeddings on: slower, with the same numbers.

    `layer_passes` counts runs of one layer on one row so far, `full_layer_passes` the runs that they would have been without
    reuse. Raises InvalidArgument if the memory budget is too small for the longest row.
    """

    encoder: Encoder
    objective: Objective
    bulk: BulkRunner
    change: Change
    memory_bytes: int
    reuse: bool = True
    layer_passes: int = field(default=0, init=False)
    full_layer_passes: int = field(default=0, init=False)
    _observers: Sequence[Observer] = field(default=(), init=False)
    _lengths: list[int] = field(init=False)
    _sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._lengths = [len(sequence) for sequence in self.objective.sequences]
        self._sizes = state_sizes(self.encoder, self._lengths)
        check_memory(self.memory_bytes, max(self._sizes))

    @property
    def rows(self) -> int:
        return len(self._lengths)

    async def baseline(self, interventions: Interventions) -> Values:
        """Measures the values that all others are compared with. Must be called first."""
        seen = await self._run_whole(self.objective.observers, interventions)
        self._observers = self.objective.later_observers(seen)
        return await self._measure(seen)

    async def whole(self, interventions: Interventions) -> Values:
        """Measures the values under some interventions, running all layers."""
        return await self._measure(await self._run_whole(self._observers, interventions))

    async def changed(
        self, interventions: Interventions, sets: Iterable[HeadSet]
    ) -> AsyncGenerator[tuple[HeadSet, Values], None]:
        """Yields the values with each set changed on top of some interventions; sets that begin at a lower layer come first."""
        by_layer: dict[int, list[HeadSet]] = defaultdict(list)
        for heads in sets:
            by_layer[heads[0][0]].append(heads)
        edits = interventions.edits(self.change.means)
        prefix = Prefix(self.encoder, self.objective.sequences, self._sizes, lambda _: edits, self.bulk, self.memory_bytes)
        for layer in sorted(by_layer):
            for part in within([self.rows] * len(by_layer[layer]), HELD_RESULTS):
                async with aclosing(self._changed_at(layer, by_layer[layer][part], interventions, prefix)) as measured:
                    async for heads, values in measured:
                        yield heads, values
        self.layer_passes += prefix.passes

    async def _changed_at(
        self, layer: int, sets: Sequence[HeadSet], interventions: Interventions, prefix: Prefix
    ) -> AsyncGenerator[tuple[HeadSet, Values], None]:
        """Yields the values with each of some sets changed that begin at one layer."""
        seen: dict[HeadSet, dict[int, Any]] = defaultdict(dict)
        async with aclosing(self._parts(prefix, layer)) as parts:
            async for states in parts:
                passes = self.encoder.shape.layers - (layer if self.reuse else 0)
                self.layer_passes += passes * len(states) * len(sets)
                async with aclosing(self.bulk.map(self._groups(sets, interventions, states))) as groups:
                    async for (heads, rows), results in groups:
                        seen[heads].update(zip(rows, results, strict=True))
                        if len(seen[heads]) == self.rows:
                            found = seen.pop(heads)
                            yield heads, await self._measure([found[row] for row in range(self.rows)])
        self.full_layer_passes += self.encoder.shape.layers * self.rows * len(sets)

    async def _parts(self, prefix: Prefix, layer: int) -> AsyncGenerator[Mapping[int, State | None], None]:
        if not self.reuse:
            yield dict.fromkeys(range(self.rows))
            return
        async with aclosing(prefix.before(layer)) as parts:
            async for states in parts:
                yield states

    def _groups(
        self, sets: Sequence[HeadSet], interventions: Interventions, states: Mapping[int, State | None]
    ) -> Iterator[tuple[tuple[HeadSet, Sequence[int]], list[Row]]]:
        """Yields rows with each set changed, in groups of about a batch, with the set and the row numbers."""
        numbers = list(states)
        slices = list(self.bulk.slices([self._lengths[row] for row in numbers]))
        for heads in sets:
            # Built just before they run: the gates of ten thousand sets take seconds, and hundreds of megabytes with means.
            edits = interventions.change(heads, self.change.mode, self.change.scale).edits(self.change.means)
            for part in slices:
                yield (heads, numbers[part]), [self._row(row, self._observers, edits, states[row]) for row in numbers[part]]

    async def _measure(self, seen: Sequence[Any]) -> Values:
        if self.rows <= INLINE_ROWS:
            return self.objective.measure(seen)
        return await self.bulk.compute(partial(self.objective.measure, seen))

    def _row(self, row: int, observers: Sequence[Observer], edits: Edits | None, state: State | None = None) -> Row:
        return Row(self.encoder, self.objective.sequences[row], observers[row], edits, state)

    async def _run_whole(self, observers: Sequence[Observer], interventions: Interventions) -> list[Any]:
        edits = interventions.edits(self.change.means)
        async with aclosing(self.bulk.results(self._lengths, lambda row: self._row(row, observers, edits))) as results:
            seen = [result async for result in results]
        passes = self.encoder.shape.layers * self.rows
        self.layer_passes += passes
        self.full_layer_passes += passes
        return seen
