"""Predictions for a text's masks, distances of attention from the untouched run, and attention maps, all from one run.

Predictions are those of `cloze`, maps those of `attention`, divergences those of `attention_comparison`. How far the attention
of a head moved is the total variation between the rows of its maps: the share of attention that went elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.candidates import Candidates, EntryWords
from bertscope_service.analyses.cloze import MAX_PREDICTIONS, PREDICTION_BYTES, FilledMask
from bertscope_service.analyses.observers.inspection import InspectionObserver, InspectionScores, RunScores
from bertscope_service.analyses.observers.map_views import MapView
from bertscope_service.analyses.texts import character_before, check_finite, read_input
from bertscope_service.analyses.words import Word as TextWord
from bertscope_service.analyses.words import words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import HeadSet
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition, InvalidArgument

MAX_MAP_BYTES = 32 * 1024 * 1024
"""Maximum size of all maps of a reply."""

TOKEN_BYTES = 64
"""Approximate size of a token in a reply."""


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """Maps that are asked for; `pixels` is 0 for whole ones, and a range is None for all rows or columns."""

    heads: HeadSet
    pixels: int
    rows: tuple[int, int] | None
    columns: tuple[int, int] | None
    dtype: torch.dtype
    untouched: bool


@dataclass(frozen=True, slots=True)
class InspectionQuery:
    """An Inspect request; `compare` asks for a second run, untouched, and `words` for maps by word."""

    text: str
    text_pair: str | None
    top_k: int
    candidates: tuple[str, ...]
    truncate: bool
    compare: bool
    divergences: bool
    views: tuple[ViewQuery, ...]
    words: bool


@dataclass(frozen=True, slots=True, eq=False)
class Inspection:
    """The answer: the masks of the run and of the untouched one, and all other numbers."""

    masks: Sequence[FilledMask]
    untouched_masks: Sequence[FilledMask]
    scores: InspectionScores


class InspectionPlan:
    """The row for an Inspect query, and the conversion of its scores to an answer.

    >>> plan = InspectionPlan(query, tokenizer, predicts=True)
    >>> (scores,) = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)

    Raises InvalidArgument for a text that is too long or holds no token, a candidate that is no single entry of the vocabulary,
    a range beyond the text, and for a reply with too many predictions or too large maps.
    """

    def __init__(self, query: InspectionQuery, tokenizer: TextTokenizer, *, predicts: bool) -> None:
        """`predicts`: the model can fill masks."""
        self.query, self.tokenizer, self.predicts = query, tokenizer, predicts
        self.text: TokenizedText = read_input(tokenizer, query.text, query.text_pair, "input", truncate=query.truncate)
        self.pieces = self.text.pieces(tokenizer)
        self.words: list[TextWord] = []
        membership = None
        if query.words:
            membership, self.words = words_of(self.pieces, self.text)
        ids, mask = self.text.sequence.ids, tokenizer.mask_id
        masks = tuple(place for place, token in enumerate(ids) if token == mask) if predicts else ()
        asked = self._asked(masks)
        self.predictions: int = len(masks) * (query.top_k * (1 + query.compare) + asked.shape[1]) * (1 + query.compare)
        if self.predictions > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.predictions} predictions, more than {MAX_PREDICTIONS}; ask for fewer, or leave "
                "masks out"
            )
            raise InvalidArgument("top_k", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS)
        self.views = tuple(self._view(view, f"maps[{index}]") for index, view in enumerate(query.views))
        self._check_size()
        observer = InspectionObserver(
            masks, query.top_k, asked, self.views, membership, query.compare, query.compare and query.divergences
        )
        self.rows: list[tuple[TokenSequence, Observer]] = [(self.text.sequence, observer)]
        self._masks = masks

    @property
    def map_bytes(self) -> int:
        """Size of all maps."""
        return sum(view.bytes for view in self.views)

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply."""
        return self.map_bytes + self.predictions * PREDICTION_BYTES + 2 * len(self.text) * TOKEN_BYTES

    def answer(self, scores: InspectionScores) -> Inspection:
        """Converts the result of the row. Raises FailedPrecondition for numbers that are not finite."""
        runs = [run for run in (scores.run, scores.untouched) if run is not None]
        check_finite([*(array for run in runs for array in (run.top_logs, run.asked_logs))])
        check_finite([array for array in (scores.moved, scores.divergence) if array is not None])
        if not scores.finite:
            message = (
                "the model's attention is not finite in this precision or under these interventions; load it in fp32 or bf16, "
                "or use smaller scales"
            )
            raise FailedPrecondition(message, "SCORES_NOT_FINITE")
        words = EntryWords(self.tokenizer)
        own = [] if scores.run is None else self._filled(scores.run, words)
        if not self.query.compare:
            return Inspection(own, [], scores)
        same = scores.untouched is None or scores.untouched is scores.run
        return Inspection(own, own if same else self._filled(scores.untouched, words), scores)

    def _asked(self, masks: Sequence[int]) -> NDArray[np.int64]:
        """Returns the ids of the candidates at each mask, [masks, candidates]."""
        if not masks:
            return np.zeros((0, 0), dtype=np.int64)
        if not self.query.candidates:
            return np.zeros((len(masks), 0), dtype=np.int64)
        candidates = Candidates(self.query.candidates, self.tokenizer, "candidates")
        return np.array([self._entries(candidates, mask) for mask in masks], dtype=np.int64)

    def _entries(self, candidates: Candidates, mask: int) -> list[int]:
        words = candidates.after(character_before(self.text, mask)).words
        for index, word in enumerate(words):
            if len(word.pieces) > 1:
                field = f"candidates[{index}]"
                message = (
                    f"{field} is {len(word.pieces)} pieces of this vocabulary, and one is followed; score it with FillMask"
                )
                raise InvalidArgument(field, message, "CANDIDATE_OF_SEVERAL_PIECES")
        return [word.pieces[0] for word in words]

    def _view(self, view: ViewQuery, field: str) -> MapView:
        rows, columns = self._range(view.rows, f"{field}.rows"), self._range(view.columns, f"{field}.columns")
        cell = ceil(max(len(rows), len(columns)) / view.pixels) if view.pixels else 1
        return MapView(view.heads, rows, columns, cell, view.dtype, view.untouched)

    def _range(self, given: tuple[int, int] | None, field: str) -> range:
        units, what = (len(self.words), "words") if self.query.words else (len(self.pieces), "pieces")
        start, end = given or (0, units)
        if not start < end <= units:
            message = (
                f"{field} is {start} to {end}; the text has {units} {what}: start below its end, and end at {units} at most"
            )
            raise InvalidArgument(field, message, "UNITS_OUT_OF_RANGE", limit=units)
        return range(start, end)

    def _check_size(self) -> None:
        if self.map_bytes > MAX_MAP_BYTES:
            message = (
                f"the maps would take {self.map_bytes} bytes, more than {MAX_MAP_BYTES}; set pixels, ask for fewer heads, rows "
                "or columns, or stream whole maps with ExtractAttention"
            )
            raise InvalidArgument("maps", message, "REPLY_TOO_LARGE", limit=MAX_MAP_BYTES)

    def _filled(self, scores: RunScores | None, words: EntryWords) -> list[FilledMask]:
        """Converts the scores of one run."""
        return [] if scores is None else [self._mask(scores, number, words) for number in range(len(self._masks))]

    def _mask(self, scores: RunScores, number: int, words: EntryWords) -> FilledMask:
        """Returns one mask with its entries, each once: the likeliest first, as FillMask gives them, and then all others."""
        top: list[int] = scores.top_ids[number].tolist()
        columns: list[Any] = [array[number].tolist() for array in (scores.asked_ids, scores.asked_logs, scores.asked_ranks)]
        others: Mapping[int, tuple[float, int]] = {
            token: (log, rank) for token, log, rank in zip(*columns, strict=True) if token not in set(top)
        }
        order = sorted(others, key=lambda token: -others[token][0])
        ids = [*top, *order]
        own = [*scores.top_logs[number].tolist(), *(others[token][0] for token in order)]
        logs = np.minimum(np.array(own, dtype=np.float64), 0.0)
        position = self._masks[number]
        return FilledMask(
            position,
            self.text.place(position),
            words.of(ids),
            logs,
            np.exp(logs),
            [*range(1, len(top) + 1), *(others[token][1] for token in order)],
        )
