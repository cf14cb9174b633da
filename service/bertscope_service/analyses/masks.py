"""Reads predictions at positions of a row, reduced on the device: what cloze stands on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observer import Readout
from bertscope_service.encoders.base import BatchGates, Encoder, State, to_device

LOGITS_BYTES = 64 * 1024 * 1024
"""Scores over the vocabulary are held for at most so many bytes of positions at a time."""

LARGE_TOP_K = 100
"""Rows that ask for more predictions than this run apart from those that ask for fewer."""


@dataclass(frozen=True, slots=True)
class MaskScores:
    """What a row learns about its positions P. Natural logarithms of probabilities over the whole vocabulary.

    top_ids, top_logs: [P, top_k], likeliest first. asked_logs: [P, C]; asked_ranks: [P, C], 1 is the likeliest.
    """

    top_ids: NDArray[np.int64]
    top_logs: NDArray[np.float32]
    asked_logs: NDArray[np.float32]
    asked_ranks: NDArray[np.int64]

    @property
    def finite(self) -> bool:
        """False if the model overflowed or its weights are broken: then no number here means anything."""
        return bool(np.isfinite(self.top_logs).all() and np.isfinite(self.asked_logs).all())


@dataclass(frozen=True, slots=True, eq=False)
class MaskObserver:
    """Reads the predictions at some positions of a row: the top k (0 for none), and given ids, `asked` [P, C] (C may be 0)."""

    positions: tuple[int, ...]
    top_k: int
    asked: NDArray[np.int64]

    @property
    def group(self) -> Hashable:
        return self.top_k if self.top_k > LARGE_TOP_K else 0, bool(self.asked.size)

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        encoder.advance(state, encoder.shape.layers, gates)
        counts = [len(observer.positions) for observer in observers]
        rows = np.repeat(np.arange(len(observers)), counts)
        positions = np.concatenate([observer.positions for observer in observers])
        width = max(observer.asked.shape[1] for observer in observers)
        asked = np.concatenate([widen(observer.asked, width) for observer in observers])
        top_k = max(observer.top_k for observer in observers)
        placed = [to_device(torch.from_numpy(array), encoder.device) for array in (rows, positions, asked)]
        chunk = max(1, LOGITS_BYTES // (4 * encoder.shape.vocabulary_size))
        parts = [
            _read(encoder.logits(state, *part[:2]), part[2], top_k)
            for part in zip(*(tensor.split(chunk) for tensor in placed), strict=True)
        ]
        ends = np.cumsum(counts)[:-1]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[MaskScores]:
            dealt = zip(*(np.split(array, ends) for array in arrays), strict=True)
            return [
                MaskScores(ids[:, : o.top_k], logs[:, : o.top_k], found[:, : o.asked.shape[1]], ranks[:, : o.asked.shape[1]])
                for o, (ids, logs, found, ranks) in zip(observers, dealt, strict=True)
            ]

        return Readout(parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True))), deal)


def widen(asked: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Ids to score, [P, C], with columns of zeros added up to `width`."""
    missing = width - asked.shape[1]
    return np.pad(asked, ((0, 0), (0, missing))) if missing else asked


def _read(logits: torch.Tensor, asked: torch.Tensor, top_k: int) -> tuple[torch.Tensor, ...]:
    """Top ids and logs [n, top_k], asked logs and ranks [n, C], from scores [n, vocabulary]."""
    total = logits.logsumexp(dim=-1, keepdim=True)
    values, ids = logits.topk(top_k, dim=-1)
    if not asked.shape[1]:
        return ids, values - total, asked.float(), asked
    found = logits.gather(1, asked)
    order = logits.sort(dim=-1).values
    ranks = 1 + logits.shape[1] - torch.searchsorted(order, found, right=True)
    return ids, values - total, found - total, ranks
