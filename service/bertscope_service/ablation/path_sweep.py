"""Sweeps over paths: one part of a model reads what another one gives in another run, all parts between them frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.ablation.prefix import state_sizes
from bertscope_service.ablation.site_plan import Pair, Units
from bertscope_service.ablation.site_sweep import MeasuredPair, Runs, SiteSweep, Vectors
from bertscope_service.analyses.observers.paths import PathsObserver, places_on_paths, results_of
from bertscope_service.analyses.observers.site_vectors import SiteVectorsObserver
from bertscope_service.encoders.paths import Sender
from bertscope_service.encoders.sites import Place
from bertscope_service.encoders.state import State
from bertscope_service.engine.rows import Row


@dataclass(eq=False)
class PathSweep(SiteSweep):
    """One SweepSites call with paths, in a model without other changes.

    All edges into a layer are changes of what its receivers give, which continue from kept states as those of sites do.
    """

    def _pair_bytes(self, pair: Pair) -> int:
        """Counts the vectors of every draw, and those of all places that streams pass."""
        layers, runs = self.encoder.shape.layers, 1 + pair.samples
        (state,) = state_sizes(self.encoder, [len(pair)])
        passed = runs * len(places_on_paths(0, layers, layers)) * self.encoder.shape.hidden_size
        return runs * state + 4 * len(pair) * (passed + pair.samples * self.plan.vector_size)

    async def _vectors(
        self, pairs: Sequence[MeasuredPair], units: Sequence[Units], states: Sequence[State]
    ) -> Mapping[Runs, Vectors]:
        layer, layers = units[0].place[1], self.encoder.shape.layers
        senders = sorted({one.sender for one in units if one.sender is not None}, key=_in_stream)
        receivers = tuple(dict.fromkeys(one.receiver for one in units if one.receiver is not None))
        places = places_on_paths(senders[0].layer, layer, layers)
        found, begin = dict[Runs, Vectors](), 0
        for pair in pairs:
            seen = await self._seen(pair, places)
            for changed, given in pair.draws(self.plan.direction):
                asked = [
                    PathsObserver(layer, receivers, tuple(senders[part]), seen[changed], seen[given])
                    for part in self.bulk.slices([len(pair.pair)] * len(senders))
                ]
                run, state = pair.runs[changed], states[begin + changed]
                rows = [Row(self.encoder, run.sequence, one, None, state, alone=True) for one in asked]
                parts = map(results_of, asked, await self.bulk.run(rows))
                found[begin + changed, begin + given] = {path: vectors for part in parts for path, vectors in part.items()}
            begin += len(pair.runs)
        return found

    async def _seen(self, pair: MeasuredPair, places: tuple[Place, ...]) -> list[Mapping[Place, NDArray[np.float32]]]:
        """Returns the vectors of each run of a pair at some places."""
        observer, runs = SiteVectorsObserver(places), pair.runs

        def row(number: int) -> Row:
            return Row(self.encoder, runs[number].sequence, observer, self._with_noise(pair, runs[number]))

        async with aclosing(self.bulk.results([len(run.sequence) for run in runs], row)) as results:
            found = [dict(zip(places, vectors, strict=True)) async for vectors in results]
        self._passes += len(runs) * (1 + max(layer for _, layer in places))
        return list(found)


def _in_stream(sender: Sender) -> tuple[int, bool, int]:
    """Orders senders as the residual stream meets them."""
    return sender.layer, sender.head is None, sender.head or 0
