"""Reads predictions at positions of a row, reduced on the device; cloze uses it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.reading import FEW, Reading, likeliest, log_probabilities, parts_of, ranks_of, widen
from bertscope_service.encoders.base import Encoder, FindsLikeliest
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State

LARGE_TOP_K = 100
"""Rows that ask for more predictions than this run in separate batches."""


class Entries:
    """Vocabulary entries to rank among: distinct `ids`, int64 [n]. Equal if their ids are, so that calls share batches."""

    __slots__ = ("_hash", "ids")

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self.ids = ids
        self._hash = hash(ids.tobytes())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Entries) and np.array_equal(self.ids, other.ids))


@dataclass(slots=True, eq=False)
class MaskScores:
    """The scores at a row's positions P: natural logarithms of probabilities over the whole vocabulary.

    top_ids, top_logs: [P, top_k], likeliest first. asked_logs: [P, C]; asked_ranks: [P, C], 1 is the likeliest.
    """

    top_ids: NDArray[np.int64]
    top_logs: NDArray[np.float32]
    asked_logs: NDArray[np.float32]
    asked_ranks: NDArray[np.int64]

    def cut(self, top_k: int, asked: int) -> None:
        """Leaves this many columns, and drops those that other rows of the batch asked for."""
        self.top_ids, self.top_logs = self.top_ids[:, :top_k], self.top_logs[:, :top_k]
        self.asked_logs, self.asked_ranks = self.asked_logs[:, :asked], self.asked_ranks[:, :asked]


@dataclass(slots=True, eq=False)
class LogitScores(MaskScores):
    """The same, and scores before the softmax: top_logits [P, top_k], asked_logits [P, C]."""

    top_logits: NDArray[np.float32]
    asked_logits: NDArray[np.float32]

    def cut(self, top_k: int, asked: int) -> None:
        """See MaskScores."""
        MaskScores.cut(self, top_k, asked)
        self.top_logits, self.asked_logits = self.top_logits[:, :top_k], self.asked_logits[:, :asked]


@dataclass(frozen=True, slots=True, eq=False)
class MaskObserver:
    """Reads the predictions at some positions of a row: the top k (0 for none), and given ids, `asked` [P, C] (C may be 0).

    The top k and ranks are among the whole vocabulary, or `among` some entries, at least k.
    """

    reads_places: ClassVar[bool] = False
    positions: tuple[int, ...]
    top_k: int
    asked: NDArray[np.int64]
    among: Entries | None = None
    scores: ClassVar[type[MaskScores]] = MaskScores
    """The class of the results."""

    @property
    def group(self) -> Hashable:
        # Rows with few ids count their ranks; a row with many would make all rows of the batch sort the vocabulary.
        many = bool(self.asked.size) + (self.asked.shape[1] > FEW)
        return self.top_k if self.top_k > LARGE_TOP_K else 0, many, self.among

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        distinct = set(observers)
        width = max(observer.asked.shape[1] for observer in distinct)
        among = observers[0].among
        top_k = max(observer.top_k for observer in distinct)
        ranked = () if among is None else (among.ids,)
        plain = cls is MaskObserver and edits is None and among is None and not width
        if plain and (prepared := _prepared(encoder, state, observers, top_k)) is not None:
            return prepared
        read = Reading(encoder, [observer.positions for observer in observers], stack_asked(observers, width), *ranked)
        asked, *entries = read.others
        ids = entries[0] if entries else None
        read.advance(state, edits)
        parts = [cls.read(logits, asked[part], top_k, ids) for part, logits in read.logits(state)]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[MaskScores]:
            return _cut(list(map(cls.scores, *map(read.split, arrays))), observers)

        return Readout(parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True))), deal)

    @staticmethod
    def read(logits: torch.Tensor, asked: torch.Tensor, top_k: int, among: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Returns top ids and logs [n, top_k], asked logs and ranks [n, C], from scores [n, vocabulary]."""
        chosen = logits if among is None else logits.index_select(1, among)
        ids = likeliest(chosen, top_k)
        if among is not None:
            ids = among[ids]
        if not asked.shape[1]:
            return ids, log_probabilities(logits, ids), asked.float(), asked
        logs = log_probabilities(logits, torch.cat((ids, asked), dim=1))
        return ids, logs[:, :top_k], logs[:, top_k:], ranks_of(chosen, logits.gather(1, asked))


@dataclass(frozen=True, slots=True, eq=False)
class LogitObserver(MaskObserver):
    """Reads the same, and the scores before the softmax."""

    scores: ClassVar[type[MaskScores]] = LogitScores

    @staticmethod
    def read(logits: torch.Tensor, asked: torch.Tensor, top_k: int, among: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Returns the same as MaskObserver.read, then top and asked scores."""
        found = MaskObserver.read(logits, asked, top_k, among)
        return *found, logits.gather(1, found[0]), logits.gather(1, asked)


def _prepared(encoder: Encoder, state: State, observers: Sequence[MaskObserver], top_k: int) -> Readout | None:
    """Returns the predictions of observers that ask for no ids, by what the encoder has prepared; None if nothing fits them."""
    positions = [observer.positions for observer in observers]
    # Not by isinstance, which takes longer for a protocol than the rest of a small batch.
    if not hasattr(encoder, "likeliest"):
        return None
    entries = cast(FindsLikeliest, encoder).likeliest(state, positions, top_k)
    if entries is None:
        return None
    parts = parts_of(list(map(len, positions)))

    def deal(arrays: tuple[NDArray[Any], ...]) -> list[MaskScores]:
        ids, bits = arrays[0][:, 0, :top_k].astype(np.int64), arrays[0][:, 1, :top_k]
        logs, no_logs, no_ranks = bits.view(np.float32), np.zeros((len(ids), 0), np.float32), np.zeros((len(ids), 0), np.int64)
        return _cut([MaskScores(ids[part], logs[part], no_logs[part], no_ranks[part]) for part in parts], observers)

    return Readout((entries,), deal)


def _cut(results: list[MaskScores], observers: Sequence[MaskObserver]) -> list[MaskScores]:
    """Returns the results of a batch, with the columns that each row asked for."""
    if len({(observer.top_k, observer.asked.shape[1]) for observer in set(observers)}) > 1:
        for observer, found in zip(observers, results, strict=True):
            found.cut(observer.top_k, observer.asked.shape[1])
    return results


class Asking(Protocol):
    """Names positions P, and ids to score there, int64 [P, C]."""

    @property
    def positions(self) -> tuple[int, ...]: ...

    @property
    def asked(self) -> NDArray[np.int64]: ...


def stack_asked(observers: Sequence[Asking], width: int) -> NDArray[np.int64]:
    """Returns the ids to score of all rows, [n, width]."""
    if not width:
        return np.zeros((sum(len(observer.positions) for observer in observers), 0), dtype=np.int64)
    return np.concatenate([widen(observer.asked, width) for observer in observers])
