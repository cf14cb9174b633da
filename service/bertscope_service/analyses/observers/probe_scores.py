"""Scores of classes by linear probes: the most probable classes of each marked span, by layer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Units
from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State, to_device


@dataclass(frozen=True, slots=True, eq=False)
class LinearProbes:
    """The probes of a call. layers: ascending, 0 for the embeddings. weights: float32 [layers, hidden_size, classes]. biases:
    float32 [layers, classes]."""

    layers: tuple[int, ...]
    weights: NDArray[np.float32]
    biases: NDArray[np.float32]


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
    """Classifies a row's spans by all probes. `labels`: int64 [spans]; any class for a span without one."""

    probes: LinearProbes
    spans: Units
    labels: NDArray[np.int64]
    top_k: int

    @property
    def group(self) -> Hashable:
        # The probes are compared by identity, so that a batch has the rows of one call.
        return self.probes

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        probes, top_k = observers[0].probes, observers[0].top_k
        units = Units.in_batch([one.spans for one in observers], max(state.lengths))
        join = units.place(encoder.device)
        weights, biases, labels = (
            to_device(torch.from_numpy(array), encoder.device)
            for array in (probes.weights, probes.biases, np.concatenate([one.labels for one in observers]))
        )
        finite = torch.ones(units.count, dtype=torch.bool, device=encoder.device)
        found: list[tuple[torch.Tensor, ...]] = []
        for index, layer in enumerate(probes.layers):
            if layer > state.layer:
                encoder.advance(state, layer, gates)
            states = join(state.hidden.flatten(0, 1)).float()
            finite &= torch.isfinite(states).all(dim=1)
            logs = torch.log_softmax(torch.addmm(biases[index], states, weights[index]), dim=1)
            top = logs.topk(top_k, dim=1)
            found.append((top.indices, top.values, logs.gather(1, labels[:, None])[:, 0]))
        ends = np.cumsum([one.spans.count for one in observers])[:-1]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[ProbeScores]:
            parts = [np.split(array, ends, axis=1) for array in arrays[:3]]
            sound = [bool(own.all()) for own in np.split(arrays[3], ends)]
            return list(map(ProbeScores, *parts, sound))

        return Readout((*(torch.stack(one) for one in zip(*found, strict=True)), finite), deal)
