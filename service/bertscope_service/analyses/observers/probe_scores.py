"""Scores of classes by linear probes: the most probable classes of each marked span, by layer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Units
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """The probes of a call.

    layers: ascending, 0 for the embeddings. arrays: float32, weights [layers, inputs, classes] and biases [layers, classes]; or
    with hidden units weights [layers, inputs, units], biases [layers, units], output weights [layers, units, classes] and
    output biases [layers, classes]. pairs: whether inputs are the states of two spans, one after the other, rather than of one.
    """

    layers: tuple[int, ...]
    arrays: tuple[NDArray[np.float32], ...]
    pairs: bool


@dataclass(frozen=True, slots=True, eq=False)
class ProbeScores:
    """The scores of a row's spans. classes: int64 [layers, spans, top_k], most probable first. logs: ln of their probabilities,
    float32 likewise. label_logs: ln of the probability of each span's label, float32 [layers, spans]. finite: whether all
    states were."""

    classes: NDArray[np.int64]
    logs: NDArray[np.float32]
    label_logs: NDArray[np.float32]
    finite: bool


@dataclass(frozen=True, slots=True, eq=False)
class ProbeScoresObserver:
    """Classifies a row's spans by all probes. `spans`: of pairs all first ones, then all second ones. `labels`: int64 [spans or
    pairs]; any class for one without."""

    reads_places: ClassVar[bool] = False
    probes: Probes
    spans: Units
    labels: NDArray[np.int64]
    top_k: int

    @property
    def group(self) -> Hashable:
        # The probes are compared by identity, so that a batch has the rows of one call.
        return self.probes

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        probes, top_k = observers[0].probes, observers[0].top_k
        units = Units.in_batch([one.spans for one in observers], max(state.lengths))
        join = units.place(encoder.device)
        given = np.concatenate([one.labels for one in observers])
        labels, *placed = place_arrays(encoder.device, given, *probes.arrays, *_sides(observers))
        arrays, sides = placed[: len(probes.arrays)], placed[len(probes.arrays) :]
        finite = torch.ones(len(labels), dtype=torch.bool, device=encoder.device)
        found: list[tuple[torch.Tensor, ...]] = []
        for index, layer in enumerate(probes.layers):
            if layer > state.layer:
                encoder.advance(state, layer, edits)
            spans = join(state.hidden.flatten(0, 1)).float()
            states = torch.cat([spans[side] for side in sides], dim=1)
            finite &= torch.isfinite(states).all(dim=1)
            scores = torch.addmm(arrays[1][index], states, arrays[0][index])
            if len(arrays) > 2:
                scores = torch.addmm(arrays[3][index], scores.relu(), arrays[2][index])
            logs = torch.log_softmax(scores, dim=1)
            top = logs.topk(top_k, dim=1)
            found.append((top.indices, top.values, logs.gather(1, labels[:, None])[:, 0]))
        ends = np.cumsum([len(one.labels) for one in observers])[:-1]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[ProbeScores]:
            parts = [np.split(array, ends, axis=1) for array in arrays[:3]]
            sound = [bool(own.all()) for own in np.split(arrays[3], ends)]
            return list(map(ProbeScores, *parts, sound))

        return Readout((*(torch.stack(one) for one in zip(*found, strict=True)), finite), deal)


def _sides(observers: Sequence[ProbeScoresObserver]) -> list[NDArray[np.int64]]:
    """Returns the indices of the first spans among the spans of a batch, and of the second ones of pairs."""
    firsts = accumulate((one.spans.count for one in observers), initial=0)
    first = np.concatenate([begin + np.arange(len(one.labels)) for begin, one in zip(firsts, observers, strict=False)])
    if not observers[0].probes.pairs:
        return [first]
    counts = [len(one.labels) for one in observers]
    return [first, first + np.repeat(counts, counts)]
