"""Sweeps over sites: changes one place after another in kept states, and measures a target.

The states of both runs of a pair before a layer are kept; all changes in that layer continue from there, and then the kept
states advance to the next one. So a change in layer l takes layers - l runs of a layer.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.ablation.prefix import Prefix, check_memory, state_sizes
from bertscope_service.ablation.site_effects import PairValues, SiteEffect, SiteEvent, SiteStart, SiteSummary, Sums
from bertscope_service.ablation.site_plan import Direction, Pair, SitePlan, Source, Units
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.observers.site_vectors import SiteVectorsObserver
from bertscope_service.analyses.observers.targets import LabelTarget, Target, WordLabelTarget
from bertscope_service.analyses.targets import Unresolved
from bertscope_service.analyses.texts import check_finite
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.encoders.state import State
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.groups import within

Vectors = Mapping[Source, NDArray[np.float32]]
"""Vectors that are taken from another run, [tokens, size]."""

Runs = tuple[int, int]
"""The numbers of the run that is changed and of the one that vectors are taken from."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of a pair: its tokens. `sample` is the number of a draw of noise, None without."""

    sequence: TokenSequence
    sample: int | None = None


@dataclass(eq=False)
class MeasuredPair:
    """A pair with its target, its runs, the clean one first, and the values of these."""

    pair: Pair
    target: Target
    runs: Sequence[Run]
    spread: float = 0.0
    """The standard deviation of the clean text's states before layer 0, for noise."""
    values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def draws(self, direction: Direction | None) -> Sequence[tuple[int, int]]:
        """Returns the numbers of the run that is changed and of the one that vectors are taken from, for each draw."""
        corrupted = range(1, len(self.runs))
        match direction:
            case Direction.RESTORE:
                return [(number, 0) for number in corrupted]
            case Direction.BREAK:
                return [(0, number) for number in corrupted]
        return [(0, 0)]

    @property
    def described(self) -> PairValues:
        """The values without changes: of the corrupted run the mean over draws, or that of the clean one without any."""
        label = self.target.labels[0] if isinstance(self.target, (LabelTarget, WordLabelTarget)) else None
        return PairValues(float(self.values[0]), float(self.values[len(self.runs) > 1 :].mean()), label)


@dataclass(eq=False)
class SiteSweep:
    """One SweepSites call. `edits` are the changes in all runs.

    Raises InvalidArgument if the memory for kept states and vectors is too small for one pair.
    """

    encoder: Encoder
    plan: SitePlan
    bulk: BulkRunner
    edits: Edits | None
    _passes: int = field(default=0, init=False)
    _full_passes: int = field(default=0, init=False)
    _sizes: Sequence[int] = field(init=False)
    _untouched: Edits = field(init=False)

    def __post_init__(self) -> None:
        none = Interventions.none(self.encoder.shape.layers, self.encoder.shape.heads)
        self._untouched = Edits(none.keep, none.uniform.astype(np.float32))
        self._sizes = list(map(self._pair_bytes, self.plan.pairs))
        check_memory(self.plan.memory_bytes, max(self._sizes), "the states and vectors of one pair")

    async def events(self) -> AsyncGenerator[SiteEvent, None]:
        """Yields the start, then the effects of a layer as soon as all pairs have been measured there, then the summary."""
        began = time.perf_counter()
        pairs = [
            MeasuredPair(pair, target, self._runs(pair))
            for pair, target in zip(self.plan.pairs, await self._targets(), strict=True)
        ]
        await self._measure_spreads(pairs)
        await self._measure_values(pairs)
        yield SiteStart(self.plan.total, [pair.described for pair in pairs])
        sums, parts = Sums(len(self.plan.units), self.plan.groups), list(within(self._sizes, self.plan.memory_bytes))
        for part in parts:
            async with aclosing(self._layers(pairs[part], sums)) as layers:
                async for numbers in layers:
                    if part is parts[-1]:
                        for number in numbers:
                            for group in range(self.plan.groups):
                                yield SiteEffect(self.plan.units[number], group, sums.of(number, group))
        yield SiteSummary(self._passes, self._full_passes, time.perf_counter() - began)

    def _pair_bytes(self, pair: Pair) -> int:
        """Returns the memory of a pair's states, and of the vectors that are taken from it in the layer with most."""
        (state,) = state_sizes(self.encoder, [len(pair)])
        givers = pair.samples if self.plan.direction is Direction.BREAK else int(self.plan.direction is not None)
        return (1 + pair.samples) * state + 4 * givers * len(pair) * self.plan.vector_size

    def _runs(self, pair: Pair) -> list[Run]:
        runs = [Run(pair.clean.sequence)]
        if pair.other is not None:
            runs += [Run(pair.other, None if pair.noise is None else sample) for sample in range(pair.samples)]
        return runs

    async def _targets(self) -> list[Target]:
        """Returns the targets of all pairs; runs what some need first."""
        waiting = [pair.target for pair in self.plan.pairs if isinstance(pair.target, Unresolved)]

        def row(number: int) -> Row:
            one = waiting[number]
            return Row(self.encoder, one.sequence, one.observer, self.edits)

        scores = await self._whole([len(one.sequence) for one in waiting], row)
        check_finite(scores)
        found = iter(scores)
        return [
            pair.target.resolve(next(found)) if isinstance(pair.target, Unresolved) else pair.target for pair in self.plan.pairs
        ]

    async def _measure_spreads(self, pairs: Sequence[MeasuredPair]) -> None:
        noisy = [pair for pair in pairs if pair.pair.noise is not None]
        observer = SiteVectorsObserver(((Site.STATE, 0),))

        def row(number: int) -> Row:
            return Row(self.encoder, noisy[number].pair.clean.sequence, observer, self.edits)

        async with aclosing(self.bulk.results([len(pair.pair) for pair in noisy], row)) as results:
            for pair in noisy:
                (states,) = await anext(results)
                pair.spread = float(np.std(states, dtype=np.float64))

    async def _measure_values(self, pairs: Sequence[MeasuredPair]) -> None:
        runs = [(pair, run) for pair in pairs for run in pair.runs]

        def row(number: int) -> Row:
            pair, run = runs[number]
            return Row(self.encoder, run.sequence, pair.target, self._with_noise(pair, run))

        values = np.array(await self._whole([len(run.sequence) for _, run in runs], row), dtype=np.float64)
        check_finite([values])
        for pair, end in zip(pairs, accumulate(len(pair.runs) for pair in pairs), strict=True):
            pair.values = values[end - len(pair.runs) : end]

    async def _whole(self, lengths: Sequence[int], row: Callable[[int], Row]) -> list[Any]:
        """Returns the results of rows that run all layers."""
        async with aclosing(self.bulk.results(lengths, row)) as results:
            found = [result async for result in results]
        self._count(len(found), 0)
        return found

    def _with_noise(self, pair: MeasuredPair, run: Run) -> Edits | None:
        """Returns the changes that make a run from its tokens on."""
        if pair.pair.noise is None or run.sample is None:
            return self.edits
        return self._changed(pair.pair.noise.change(run.sample, self.encoder.shape.hidden_size, pair.spread))

    def _changed(self, change: Change, *, entering: bool = False) -> Edits:
        """Returns the changes in all runs and one more, of the state that a row continues from if it is `entering`."""
        edits = self._untouched if self.edits is None else self.edits
        return (
            replace(edits, entering=(*edits.entering, change)) if entering else replace(edits, changes=(*edits.changes, change))
        )

    async def _layers(self, pairs: Sequence[MeasuredPair], sums: Sums) -> AsyncGenerator[Sequence[int], None]:
        """Measures pairs layer by layer, upwards. Yields the numbers of the units of each layer that is done."""
        runs = [(pair, run) for pair in pairs for run in pair.runs]
        sequences = [run.sequence for _, run in runs]
        sizes = state_sizes(self.encoder, list(map(len, sequences)))
        prefix = Prefix(self.encoder, sequences, sizes, lambda row: self._with_noise(*runs[row]), self.bulk, sum(sizes))
        last = self.encoder.shape.layers - 1
        for layer, numbered in groupby(enumerate(self.plan.units), key=lambda one: one[1].place[1]):
            units = list(numbered)
            # What the head reads is changed on the way out of the last layer.
            async with aclosing(prefix.before(min(layer, last))) as parts:
                async for states in parts:
                    await self._measure(pairs, units, [states[row] for row in range(len(runs))], sums)
            yield [number for number, _ in units]
        self._passes += prefix.passes

    async def _measure(
        self, pairs: Sequence[MeasuredPair], units: Sequence[tuple[int, Units]], states: Sequence[State], sums: Sums
    ) -> None:
        """Measures all changes of a layer. `states` are those of all runs of all pairs, one after another."""
        vectors = await self._vectors(pairs, [one for _, one in units], states)
        async with aclosing(self.bulk.map(self._groups(pairs, [one for _, one in units], states, vectors))) as groups:
            async for (pair, cells), values in groups:
                check_finite([np.array(values)])
                self._count(len(values), states[0].layer)
                draws = pair.draws(self.plan.direction)
                base, other = (float(np.mean([pair.values[draw[end]] for draw in draws])) for end in (0, 1))
                for cell, value in zip(cells, np.reshape(values, (len(cells), -1)).mean(axis=1).tolist(), strict=True):
                    which, place = divmod(cell, len(pair.pair.groups))
                    sums.add(units[which][0], pair.pair.groups[place][0], pair.target, value, base, other)

    async def _vectors(
        self, pairs: Sequence[MeasuredPair], units: Sequence[Units], states: Sequence[State]
    ) -> Mapping[Runs, Vectors]:
        """Returns the vectors that take the place of those of a run, by both runs' numbers among `states`."""
        if self.plan.direction is None:
            return {}
        places = tuple(dict.fromkeys(one.place for one in units))
        drawn = dict(self._drawn(pairs))
        givers = {given: run for (_, given), (_, run) in drawn.items()}
        numbers = list(givers)

        def row(index: int) -> Row:
            number = numbers[index]
            return Row(self.encoder, givers[number].sequence, SiteVectorsObserver(places), self.edits, states[number])

        found: dict[int, Vectors] = {}
        async with aclosing(self.bulk.results([len(run.sequence) for run in givers.values()], row)) as results:
            for number in numbers:
                found[number] = dict(zip(places, await anext(results), strict=True))
        ends = max(layer + (site is not Site.STATE) for site, layer in places)
        self._passes += len(numbers) * (ends - states[0].layer)
        return {runs: found[runs[1]] for runs in drawn}

    def _drawn(self, pairs: Sequence[MeasuredPair]) -> Iterator[tuple[Runs, tuple[Run, Run]]]:
        """Yields the run that is changed and the one that vectors are taken from, for each draw of all pairs, behind their
        numbers among the runs of all."""
        begin = 0
        for pair in pairs:
            for changed, given in pair.draws(self.plan.direction):
                yield (begin + changed, begin + given), (pair.runs[changed], pair.runs[given])
            begin += len(pair.runs)

    def _groups(
        self, pairs: Sequence[MeasuredPair], units: Sequence[Units], states: Sequence[State], vectors: Mapping[Runs, Vectors]
    ) -> Iterator[tuple[tuple[MeasuredPair, range], list[Row]]]:
        """Yields the rows of some changes of a pair, all draws of one after another, with the pair and the numbers of the
        changes: those of the first of `units` at all positions, then those of the next one."""
        begin = 0
        for pair in pairs:
            draws, groups = pair.draws(self.plan.direction), pair.pair.groups
            cells = range(len(units) * len(groups))
            for part in self.bulk.slices([len(draws) * len(pair.pair)] * len(cells)):
                rows = []
                for cell in cells[part]:
                    one, (_, positions) = units[cell // len(groups)], groups[cell % len(groups)]
                    for changed, given in draws:
                        of_other = vectors[begin + changed, begin + given][one.source] if vectors else None
                        change = one.change(positions, of_other)
                        rows.append(self._row(pair, pair.runs[changed], change, states[begin + changed]))
                yield (pair, cells[part]), rows
            begin += len(pair.runs)

    def _row(self, pair: MeasuredPair, run: Run, change: Change, state: State) -> Row:
        """Returns a run with one change more, which continues from a kept state."""
        if change.site is not Site.STATE or change.layer != state.layer:
            return Row(self.encoder, run.sequence, pair.target, self._changed(change), state)
        # Its contexts are those of the state as it was.
        bare = State(state.hidden, state.lengths, None, state.layer)
        return Row(self.encoder, run.sequence, pair.target, self._changed(change, entering=True), bare)

    def _count(self, rows: int, layer: int) -> None:
        self._passes += rows * (self.encoder.shape.layers - layer)
        self._full_passes += rows * self.encoder.shape.layers
