"""Reads predictions, distances from the untouched run, and maps of a row, all from one run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.map_comparison import mean_divergences
from bertscope_service.analyses.observers.map_layers import maps_at_a_time
from bertscope_service.analyses.observers.map_views import MapView, ViewedMaps
from bertscope_service.analyses.observers.masks import LARGE_TOP_K, MaskObserver, stack_asked
from bertscope_service.analyses.observers.reading import FEW, Reading, likeliest
from bertscope_service.encoders.base import Encoder, MapWatcher
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import beside_untouched
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State, to_device

ALONE_BYTES = 4 * 1024 * 1024
"""A row whose maps are larger runs in a batch of its own, so that those of a batch fit into memory, the host's above all."""


class RunScores(NamedTuple):
    """The scores of one run at a row's positions P: natural logarithms of probabilities over the whole vocabulary.

    top_ids, top_logs: [P, top_k], likeliest first. asked_ids, asked_logs, asked_ranks: [P, C] of the entries that were asked
    for; with two runs, those of the other's top_ids come first.
    """

    top_ids: NDArray[np.int64]
    top_logs: NDArray[np.float32]
    asked_ids: NDArray[np.int64]
    asked_logs: NDArray[np.float32]
    asked_ranks: NDArray[np.int64]

    def cut(self, widest: int, top_k: int, given: int, *, paired: bool) -> RunScores:
        """Returns the columns of a row that asked for `top_k` entries and `given` ids; `widest` is the most that a row of the
        batch asked for."""
        others = range(top_k) if paired else range(0)
        begin = widest if paired else 0
        columns = [*others, *range(begin, begin + given)]
        return RunScores(
            self.top_ids[:, :top_k],
            self.top_logs[:, :top_k],
            self.asked_ids[:, columns],
            self.asked_logs[:, columns],
            self.asked_ranks[:, columns],
        )


@dataclass(frozen=True, slots=True, eq=False)
class InspectionScores:
    """The numbers of one row.

    run, untouched: None without positions; the same unless two runs differ. moved, divergence: [layers, heads], None unless
    they are asked for. cells: of each view, as its shape and dtype say. finite: False if a weight is infinite or NaN. seconds:
    that the device worked on the batch.
    """

    run: RunScores | None
    untouched: RunScores | None
    moved: NDArray[np.float32] | None
    divergence: NDArray[np.float32] | None
    cells: Sequence[NDArray[Any]]
    finite: bool
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class InspectionObserver:
    """Reads the `top_k` entries and given ids, `asked` [P, C], at `positions` (there may be none), and the maps of `views`.

    words: number of the word of each token, for maps by word; None for maps by piece. compare: the row also runs untouched.
    The result is InspectionScores.
    """

    positions: tuple[int, ...]
    top_k: int
    asked: NDArray[np.int64]
    views: tuple[MapView, ...]
    words: NDArray[np.int64] | None
    compare: bool
    divergences: bool

    @property
    def group(self) -> Hashable:
        ranked = self.asked.shape[1] + (self.top_k if self.compare else 0)
        alone = id(self) if sum(view.bytes for view in self.views) > ALONE_BYTES else None
        large = self.top_k if self.top_k > LARGE_TOP_K else 0
        return bool(self.positions), large, ranked > FEW, self.compare, self.divergences, alone

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        began = perf_counter()
        run = _Run(encoder, state, edits, observers)
        run.advance()
        tensors = (*run.scores(), *run.distances(), *run.cells())
        ended = perf_counter()

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[InspectionScores]:
            # Elsewhere than on a CPU, the device has worked until now.
            return run.deal(arrays, (ended if encoder.device.type == "cpu" else perf_counter()) - began)

        return Readout(tensors, deal)


class _Run:
    """One batch: its rows and, from the first changed layer on, the same rows untouched."""

    def __init__(
        self, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[InspectionObserver]
    ) -> None:
        self.encoder, self.state, self.edits, self.observers = encoder, state, edits, observers
        self.lengths = state.lengths
        one = observers[0]
        self.compare, self.divergences = one.compare, one.compare and one.divergences
        self.first = edits.first if edits is not None and one.compare else None
        self.paired = self.first is not None
        self.reading = None
        if one.positions:
            asked = stack_asked(observers, max(observer.asked.shape[1] for observer in observers))
            self.reading = Reading(encoder, [observer.positions for observer in observers] * (1 + self.paired), asked)
        self.top_k = max(observer.top_k for observer in observers)
        self.views = [
            ViewedMaps(observer.views, observer.words, length, encoder.device)
            for observer, length in zip(observers, self.lengths, strict=True)
        ]
        self._moved: dict[int, torch.Tensor] = {}
        self._divergence: dict[int, torch.Tensor] = {}
        if self.paired:
            lengths = np.array(self.lengths, dtype=np.int64)[:, None]
            real = (np.arange(max(self.lengths)) < lengths).astype(np.float32)
            self._real = to_device(torch.from_numpy(real), encoder.device)[:, None]
            self._lengths = self._real.sum(dim=2)

    def advance(self) -> None:
        """Runs all layers: once for both runs below the first changed one."""
        layers, only = self.encoder.shape.layers, None if self.reading is None else self.reading.only
        if self.first is not None and self.edits is not None:
            self.encoder.advance(self.state, self.first, None, self._watchers(range(self.first)))
            self.state, self.edits = beside_untouched(self.state, self.edits)
        self.encoder.advance(self.state, layers, self.edits, self._watchers(range(self.first or 0, layers)), only=only)

    def _watchers(self, layers: range) -> dict[int, MapWatcher]:
        viewed = {layer for observer in self.observers for view in observer.views for layer, _ in view.heads}
        if self.first is not None:
            viewed |= set(range(self.first, self.encoder.shape.layers))
        return {layer: partial(self._see, layer) for layer in layers if layer in viewed}

    def _see(self, layer: int, maps: torch.Tensor) -> None:
        rows = len(self.observers)
        own, untouched = maps[:rows], maps[-rows:]
        for row, views in enumerate(self.views):
            views.take(layer, own[row], untouched[row])
        if len(maps) > rows and maps.shape[1]:
            self._moved[layer] = self._total_variation(own, untouched)
            if self.divergences:
                real = self._real[..., None]
                self._divergence[layer] = mean_divergences(own * real, untouched * real, self._lengths)

    def _total_variation(self, own: torch.Tensor, untouched: torch.Tensor) -> torch.Tensor:
        """Returns half the absolute differences of each row, mean over the real rows: [rows, heads]."""
        many = maps_at_a_time(own.device, own.shape[2] ** 2)
        pairs = zip(own.flatten(0, 1).split(many), untouched.flatten(0, 1).split(many), strict=True)
        sums = torch.cat([(one - other).abs_().sum(dim=2) for one, other in pairs]).view(own.shape[:3])
        return (sums * self._real).sum(dim=2) * 0.5 / self._lengths

    def scores(self) -> tuple[torch.Tensor, ...]:
        """Returns the fields of RunScores of all positions, of each run."""
        if self.reading is None:
            return ()
        count = sum(len(observer.positions) for observer in self.observers)
        (asked,) = self.reading.others
        held = size_limits(self.encoder.device).logits_bytes
        chunk = max(1, held // (4 * self.encoder.shape.vocabulary_size * (1 + self.paired)))
        parts = [self._part(slice(at, min(count, at + chunk)), count, asked) for at in range(0, count, chunk)]
        return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True)))

    def _part(self, part: slice, count: int, asked: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = self._logits(part)
        if not self.paired:
            return self._read(own, asked[part])
        other = self._logits(slice(part.start + count, part.stop + count))
        top, other_top = likeliest(own, self.top_k), likeliest(other, self.top_k)
        return (
            *self._read(own, torch.cat((other_top, asked[part]), dim=1)),
            *self._read(other, torch.cat((top, asked[part]), dim=1)),
        )

    def _logits(self, part: slice) -> torch.Tensor:
        if self.reading is None:
            raise ValueError("nothing is read")
        return self.encoder.logits(self.state, self.reading.rows[part], self.reading.places[part])

    def _read(self, logits: torch.Tensor, asked: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ids, logs, asked_logs, asked_ranks = MaskObserver.read(logits, asked, self.top_k, None)
        return ids, logs, asked, asked_logs, asked_ranks

    def distances(self) -> tuple[torch.Tensor, ...]:
        """Returns the distances, [rows, layers, heads] each: zeros below the first changed layer."""
        if not self.compare:
            return ()
        shape = self.encoder.shape
        none = torch.zeros((len(self.observers), shape.heads), dtype=torch.float32, device=self.encoder.device)
        found = (self._moved, self._divergence) if self.divergences else (self._moved,)
        return tuple(torch.stack([of.get(layer, none) for layer in range(shape.layers)], dim=1) for of in found)

    def cells(self) -> tuple[torch.Tensor, ...]:
        """Returns whether the weights of each view and layer of each row are finite, and then the cells of each view of each
        row."""
        sums = [one for views in self.views for one in views.sums]
        finite = torch.isfinite(torch.stack(sums)) if sums else torch.ones(0, dtype=torch.bool, device=self.encoder.device)
        return finite, *(cells for views in self.views for cells in views.cells)

    def deal(self, arrays: tuple[NDArray[Any], ...], seconds: float) -> list[InspectionScores]:
        """Splits the tensors by row."""
        rest = iter(arrays)
        runs: list[list[NDArray[Any]]] = []
        if self.reading is not None:
            runs = [[next(rest) for _ in RunScores._fields] for _ in range(1 + self.paired)]
        moved = next(rest) if self.compare else None
        divergence = next(rest) if self.divergences else None
        finite = np.split(next(rest), np.cumsum([len(views.sums) for views in self.views])[:-1])
        found = []
        for row, observer in enumerate(self.observers):
            scores = [self._cut(run, row) for run in runs]
            found.append(
                InspectionScores(
                    scores[0] if scores else None,
                    scores[-1] if scores else None,
                    None if moved is None else moved[row],
                    None if divergence is None else divergence[row],
                    [next(rest) for _ in observer.views],
                    bool(finite[row].all()),
                    seconds,
                )
            )
        return found

    def _cut(self, run: Sequence[NDArray[Any]], row: int) -> RunScores:
        """Returns the scores of one row."""
        if self.reading is None:
            raise ValueError("nothing is read")
        observer, part = self.observers[row], self.reading.parts[row]
        scores = RunScores(*(array[part] for array in run))
        return scores.cut(self.top_k, observer.top_k, observer.asked.shape[1], paired=self.paired)
