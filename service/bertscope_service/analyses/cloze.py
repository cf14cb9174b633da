"""What a model would write in place of a mask.

Probabilities are softmax over the whole vocabulary at the mask. Several masks in a text are independent: each is predicted
with all the others in place. A candidate word of k pieces is scored with k masks in its place, as the product of its pieces'
probabilities there, each predicted with all k masks in place; never by its first piece alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observer import Readout
from bertscope_service.encoders.base import BatchGates, Encoder, State, TokenSequence, to_device
from bertscope_service.errors import InvalidArgument
from bertscope_service.tokenization import TextTokenizer, TokenizedText

LOGITS_BYTES = 64 * 1024 * 1024
"""Scores over the vocabulary are held for at most so many bytes of positions at a time."""

MAX_PREDICTIONS = 500_000
"""Most predictions in one reply; more would take seconds to write down."""

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
        asked = np.concatenate([_widen(observer.asked, width) for observer in observers])
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

        return Readout(tuple(torch.cat(column) for column in zip(*parts, strict=True)), deal)


def _widen(asked: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    return np.pad(asked, ((0, 0), (0, width - asked.shape[1])))


def _read(logits: torch.Tensor, asked: torch.Tensor, top_k: int) -> tuple[torch.Tensor, ...]:
    """Top ids and logs [n, top_k], asked logs and ranks [n, C], from scores [n, vocabulary]."""
    total = logits.logsumexp(dim=-1, keepdim=True)
    values, ids = logits.topk(top_k, dim=-1)
    found = logits.gather(1, asked)
    if asked.shape[1]:
        order = logits.sort(dim=-1).values
        ranks = 1 + logits.shape[1] - torch.searchsorted(order, found, right=True)
    else:
        ranks = asked
    return ids, values - total, found - total, ranks


@dataclass(frozen=True, slots=True)
class ClozeQuery:
    """A FillMask request. `top_k` is 0 where candidates are given."""

    texts: tuple[str, ...]
    top_k: int
    candidates: tuple[str, ...]
    truncate: bool


@dataclass(frozen=True, slots=True)
class Prediction:
    """One way to fill a mask; see bertscope.v1.Prediction."""

    token: str
    piece_ids: tuple[int, ...]
    log_probability: float
    candidate_probability: float | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class FilledMask:
    """A mask (its place among the tokens and in the text) and what fills it, likeliest first."""

    token_index: int
    start: int
    end: int
    predictions: list[Prediction]


@dataclass(frozen=True, slots=True)
class FilledText:
    """The masks of one text, in order; `tokens` it was read as, `truncated` tokens cut away."""

    masks: list[FilledMask]
    tokens: int
    truncated: int


@dataclass(slots=True)
class _Mask:
    """A mask while its query is worked on: the pieces of each candidate there, and the rows that score them.

    `rows` maps a number of pieces to the row that has so many masks here, `columns` a candidate to its column in that row.
    """

    position: int
    pieces: list[tuple[int, ...]]
    rows: dict[int, int]
    columns: dict[int, int]
    offset: int


class ClozePlan:
    """The rows that answer a query, and the way back from their scores to an answer.

    >>> plan = ClozePlan(query, tokenizer)
    >>> scores = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)

    Raises InvalidArgument for a text without a mask or too long, and for a candidate that the vocabulary can't write.
    """

    def __init__(self, query: ClozeQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        self.tokenizer = tokenizer
        self.rows: list[tuple[TokenSequence, MaskObserver]] = []
        self._texts: list[tuple[TokenizedText, list[_Mask]]] = []
        for index, text in enumerate(query.texts):
            tokenized = tokenizer.encode(text, truncate=query.truncate)
            check_length(tokenized, f"texts[{index}]", tokenizer.max_tokens)
            self._texts.append((tokenized, list(self._plan_text(index, tokenized))))
        if self.predictions > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.predictions} predictions; ask for at most {MAX_PREDICTIONS}, or for fewer texts"
            )
            raise InvalidArgument("top_k", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS)

    @property
    def predictions(self) -> int:
        """How many predictions the answer holds."""
        return sum(len(masks) for _, masks in self._texts) * max(self.query.top_k, len(self.query.candidates))

    def _plan_text(self, index: int, tokenized: TokenizedText) -> Iterator[_Mask]:
        """The masks of a text; adds the row that reads them all, and one for each longer candidate length."""
        positions = tuple(place for place, token in enumerate(tokenized.sequence.ids) if token == self.tokenizer.mask_id)
        if not positions:
            raise _no_mask(index, tokenized, self.tokenizer)
        masks = [self._plan_mask(tokenized, position, number) for number, position in enumerate(positions)]
        # One row reads all masks of a text, for the top k and for every candidate of a single piece.
        singles = [[c for c, pieces in enumerate(mask.pieces) if len(pieces) == 1] for mask in masks]
        width = max(map(len, singles))
        if self.query.top_k or width:
            asked = np.zeros((len(masks), width), dtype=np.int64)
            for number, (mask, chosen) in enumerate(zip(masks, singles, strict=True)):
                mask.rows[1] = len(self.rows)
                mask.columns.update({candidate: column for column, candidate in enumerate(chosen)})
                asked[number, : len(chosen)] = [mask.pieces[candidate][0] for candidate in chosen]
            self.rows.append((tokenized.sequence, MaskObserver(positions, self.query.top_k, asked)))
        for mask in masks:
            self._plan_longer(index, tokenized, mask)
            yield mask

    def _plan_mask(self, tokenized: TokenizedText, position: int, number: int) -> _Mask:
        start, _ = tokenized.span(position)
        before = tokenized.texts[0][start - 1 : start]
        pieces = [
            self._candidate_pieces(index, word, " " if before.isspace() else before)
            for index, word in enumerate(self.query.candidates)
        ]
        return _Mask(position, pieces, {}, {}, number)

    def _candidate_pieces(self, index: int, word: str, before: str) -> tuple[int, ...]:
        pieces = self.tokenizer.pieces_in_context(word, before)
        if not pieces or self.tokenizer.unknown_id in pieces:
            message = f"candidates[{index}] can't be written with this model's vocabulary; leave it out or write it differently"
            raise InvalidArgument(f"candidates[{index}]", message, "CANDIDATE_UNTOKENIZABLE", candidate=word)
        return pieces

    def _plan_longer(self, index: int, tokenized: TokenizedText, mask: _Mask) -> None:
        """For each number of pieces k > 1 among the candidates, a row with k masks in place of this one."""
        sequence = tokenized.sequence
        for length in sorted({len(pieces) for pieces in mask.pieces} - {1}):
            if len(sequence) + length - 1 > self.tokenizer.max_tokens:
                message = (
                    f"texts[{index}] has {len(sequence)} tokens and a candidate of {length} pieces does not fit in: the model "
                    f"reads {self.tokenizer.max_tokens}; shorten the text"
                )
                raise InvalidArgument(f"texts[{index}]", message, "TEXT_TOO_LONG")
            chosen = [candidate for candidate, pieces in enumerate(mask.pieces) if len(pieces) == length]
            mask.rows[length] = len(self.rows)
            mask.columns.update({candidate: column for column, candidate in enumerate(chosen)})
            cut = slice(mask.position, mask.position + 1)
            ids, segments = list(sequence.ids), list(sequence.segments)
            ids[cut], segments[cut] = ids[cut] * length, segments[cut] * length
            asked = np.array([mask.pieces[candidate] for candidate in chosen], dtype=np.int64).T
            places = tuple(range(mask.position, mask.position + length))
            self.rows.append((TokenSequence(ids, segments), MaskObserver(places, 0, np.ascontiguousarray(asked))))

    def answer(self, scores: Sequence[MaskScores]) -> list[FilledText]:
        """The answer, from one MaskScores for each of `rows`."""
        return [
            FilledText([self._fill(tokenized, mask, scores) for mask in masks], len(tokenized), tokenized.truncated)
            for tokenized, masks in self._texts
        ]

    def _fill(self, tokenized: TokenizedText, mask: _Mask, scores: Sequence[MaskScores]) -> FilledMask:
        predictions = self._top(mask, scores) if self.query.top_k else self._chosen(mask, scores)
        return FilledMask(mask.position, *tokenized.span(mask.position), predictions)

    def _top(self, mask: _Mask, scores: Sequence[MaskScores]) -> list[Prediction]:
        found = scores[mask.rows[1]]
        likeliest = zip(found.top_ids[mask.offset].tolist(), found.top_logs[mask.offset].tolist(), strict=True)
        return [
            Prediction(self.tokenizer.word(token), (token,), min(0.0, log), None, rank)
            for rank, (token, log) in enumerate(likeliest, start=1)
        ]

    def _chosen(self, mask: _Mask, scores: Sequence[MaskScores]) -> list[Prediction]:
        logs, ranks = [], []
        for candidate, pieces in enumerate(mask.pieces):
            found, column = scores[mask.rows[len(pieces)]], mask.columns[candidate]
            single = len(pieces) == 1
            logs.append(min(0.0, float(found.asked_logs[mask.offset, column] if single else found.asked_logs[:, column].sum())))
            ranks.append(int(found.asked_ranks[mask.offset, column]) if single else None)
        shares = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
        predictions = [
            Prediction(word, pieces, log, float(share), rank)
            for word, pieces, log, share, rank in zip(self.query.candidates, mask.pieces, logs, shares, ranks, strict=True)
        ]
        return sorted(predictions, key=lambda prediction: -prediction.log_probability)


def check_length(tokenized: TokenizedText, field: str, max_tokens: int) -> None:
    """Raise InvalidArgument if a text is longer than the model reads."""
    if len(tokenized) > max_tokens:
        message = f"{field} has {len(tokenized)} tokens and the model reads {max_tokens}; shorten it, or set truncate"
        raise InvalidArgument(field, message, "TEXT_TOO_LONG", tokens=len(tokenized), max_tokens=max_tokens)


def _no_mask(index: int, tokenized: TokenizedText, tokenizer: TextTokenizer) -> InvalidArgument:
    if tokenized.truncated:
        message = f"texts[{index}] has no mask left after cutting {tokenized.truncated} tokens; move the mask forward"
        return InvalidArgument(f"texts[{index}]", message, "MASK_TRUNCATED")
    own = "" if tokenizer.mask_token == "[MASK]" else f" (or {tokenizer.mask_token})"
    return InvalidArgument(
        f"texts[{index}]", f"texts[{index}] has no mask; write [MASK]{own} where a word is asked for", "NO_MASK"
    )
