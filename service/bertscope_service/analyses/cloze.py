"""Predictions of a model in place of a mask.

Probabilities are softmax over the whole vocabulary at the mask. Several masks in a text are independent: each is predicted
with all the others in place. A candidate word of k pieces is scored with k masks in its place, as the product of its pieces'
probabilities there, each predicted with all k masks in place; never by its first piece alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.masks import MaskObserver, MaskScores
from bertscope_service.analyses.observers.reading import widen
from bertscope_service.analyses.texts import character_before, check_finite, mask_positions
from bertscope_service.checkpoints.tokenizer import TextTokenizer, TokenizedText, check_length
from bertscope_service.encoders.base import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_PREDICTIONS = 500_000
"""Maximum number of predictions in one reply; more would take seconds to serialise."""

PREDICTION_BYTES = 32

MAX_ROW_TOKENS = 1_000_000
"""Default for the maximum number of tokens in the rows of one query. Each mask takes one more row for every candidate length
of two pieces or more."""


@dataclass(frozen=True, slots=True)
class ClozeQuery:
    """A FillMask request. `top_k` is 0 if candidates are given; `max_row_tokens` is the maximum number of tokens in all
    rows."""

    texts: tuple[str, ...]
    top_k: int
    candidates: tuple[str, ...]
    truncate: bool
    max_row_tokens: int = MAX_ROW_TOKENS


@dataclass(frozen=True, slots=True)
class FilledMask:
    """The predictions for one mask, likeliest first, in columns [n].

    position, span: the mask's place among the tokens, and in the text. words, pieces: each prediction, and the ids of its
    pieces. logs, probabilities: natural logarithms of their probabilities, and these. ranks: in the whole vocabulary from 1; 0
    for words of several pieces. shares: probabilities among the candidates; None without candidates.
    """

    position: int
    span: tuple[int, int]
    words: Sequence[str]
    pieces: Sequence[tuple[int, ...]]
    logs: Sequence[float]
    probabilities: Sequence[float]
    ranks: Sequence[int]
    shares: Sequence[float] | None


@dataclass(frozen=True, slots=True)
class _Spelling:
    """The pieces of all candidates after a given character.

    pieces: the pieces of each candidate. members: for each number of pieces, the candidates with that many [C]. asked: the ids
    to score for them [number of pieces, C].
    """

    pieces: list[tuple[int, ...]]
    members: dict[int, NDArray[np.int64]]
    asked: dict[int, NDArray[np.int64]]


NOTHING_ASKED = np.zeros((1, 0), dtype=np.int64)
NO_CANDIDATES = _Spelling([], {}, {})


@cache
def _nothing_asked(positions: int) -> NDArray[np.int64]:
    """Returns ids to score at some positions: none at any."""
    return np.zeros((positions, 0), dtype=np.int64)


@dataclass(slots=True)
class _Mask:
    """A mask of a query that is being planned; `number` counts the masks of its text.

    `rows` maps a number of pieces to the row with that many masks here; 1 maps to the row that reads all masks of the text.
    """

    number: int
    position: int
    spelling: _Spelling
    rows: dict[int, int] = field(default_factory=dict)


class ClozePlan:
    """The rows for a FillMask query, and the conversion of their scores to an answer.

    >>> plan = ClozePlan(query, tokenizer)
    >>> scores = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)

    Raises InvalidArgument for a text without a mask or too long, for a candidate that the vocabulary can't write, and for a
    query with too many predictions or tokens.
    """

    def __init__(self, query: ClozeQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        self.tokenizer = tokenizer
        self.rows: list[tuple[TokenSequence, MaskObserver]] = []
        self._row_tokens = 0
        self._spellings: dict[str, _Spelling] = {}
        reserve = 0
        if query.truncate and query.candidates:
            # Leaves room for the longest candidate after a blank.
            spelled = self._spellings[" "] = self._spell(" ")
            reserve = max(spelled.members) - 1
        texts = self._read(reserve)
        self.predictions = sum(len(positions) for _, positions in texts) * max(query.top_k, len(query.candidates))
        if self.predictions > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.predictions} predictions, more than {MAX_PREDICTIONS}; ask for fewer, or in parts"
            )
            raise InvalidArgument(
                "top_k" if query.top_k else "candidates", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS
            )
        self._texts = [(tokenized, self._plan(index, tokenized, at)) for index, (tokenized, at) in enumerate(texts)]

    def _read(self, reserve: int) -> list[tuple[TokenizedText, tuple[int, ...]]]:
        """Returns the tokens of each text and the positions of its masks. A text that is cut leaves room for `reserve` more
        tokens."""
        reserve = min(reserve, self.tokenizer.max_tokens // 2)
        texts = self.tokenizer.encode_all([(text,) for text in self.query.texts], truncate=self.query.truncate, reserve=reserve)
        read = []
        for index, text in enumerate(texts):
            field = f"texts[{index}]"
            check_length(text, field, self.tokenizer.max_tokens)
            read.append((text, mask_positions(text, self.tokenizer, field)))
        return read

    def _plan(self, index: int, tokenized: TokenizedText, positions: tuple[int, ...]) -> list[_Mask]:
        """Returns the masks of a text. Adds the row that reads them all, and one for each longer candidate length at each
        mask."""
        if not self.query.candidates:
            row = self._add(tokenized.sequence, MaskObserver(positions, self.query.top_k, _nothing_asked(len(positions))))
            return [_Mask(number, at, NO_CANDIDATES, {1: row}) for number, at in enumerate(positions)]
        masks = [_Mask(number, at, self._spelling(tokenized, at)) for number, at in enumerate(positions)]
        singles = [mask.spelling.asked.get(1, NOTHING_ASKED) for mask in masks]
        width = max(single.shape[1] for single in singles)
        if width:
            asked = np.concatenate([widen(single, width) for single in singles])
            row = self._add(tokenized.sequence, MaskObserver(positions, 0, asked))
            for mask in masks:
                mask.rows[1] = row
        for mask in masks:
            for length in sorted(mask.spelling.asked.keys() - {1}):
                mask.rows[length] = self._add_longer(index, tokenized.sequence, mask, length)
        return masks

    def _spelling(self, tokenized: TokenizedText, position: int) -> _Spelling:
        """Returns the candidates' pieces at a mask. They depend only on the character before it, so few of these are made."""
        before = character_before(tokenized, position)
        found = self._spellings.get(before)
        if found is None:
            found = self._spellings[before] = self._spell(before)
        return found

    def _spell(self, before: str) -> _Spelling:
        pieces = [self._pieces(index, word, before) for index, word in enumerate(self.query.candidates)]
        members: dict[int, list[int]] = defaultdict(list)
        for candidate, parts in enumerate(pieces):
            members[len(parts)].append(candidate)
        asked = {length: np.array([pieces[c] for c in chosen], dtype=np.int64).T.copy() for length, chosen in members.items()}
        return _Spelling(pieces, {length: np.array(chosen) for length, chosen in members.items()}, asked)

    def _pieces(self, index: int, word: str, before: str) -> tuple[int, ...]:
        pieces = self.tokenizer.pieces_in_context(word, before)
        if not pieces or self.tokenizer.unknown_id in pieces:
            message = f"candidates[{index}] can't be written with this model's vocabulary; leave it out or write it differently"
            raise InvalidArgument(f"candidates[{index}]", message, "CANDIDATE_UNTOKENIZABLE")
        return pieces

    def _add_longer(self, index: int, sequence: TokenSequence, mask: _Mask, length: int) -> int:
        """Adds the row with `length` masks in place of a mask. Returns its number."""
        if len(sequence) + length - 1 > self.tokenizer.max_tokens:
            message = (
                f"texts[{index}] has {len(sequence)} tokens and a candidate of {length} pieces does not fit in: the model "
                f"reads {self.tokenizer.max_tokens}; shorten the text"
            )
            raise InvalidArgument(f"texts[{index}]", message, "TEXT_TOO_LONG")
        cut = slice(mask.position, mask.position + 1)
        ids, segments = list(sequence.ids), list(sequence.segments)
        ids[cut], segments[cut] = ids[cut] * length, segments[cut] * length
        places = tuple(range(mask.position, mask.position + length))
        return self._add(TokenSequence(ids, segments), MaskObserver(places, 0, mask.spelling.asked[length]))

    def _add(self, sequence: TokenSequence, observer: MaskObserver) -> int:
        """Adds a row. Returns its number."""
        self._row_tokens += len(sequence)
        most = self.query.max_row_tokens
        if self._row_tokens > most:
            message = f"these texts and candidates make more than {most} tokens of work; send fewer of them at a time"
            field = "candidates" if self.query.candidates else "texts"
            raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=most)
        self.rows.append((sequence, observer))
        return len(self.rows) - 1

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes: each prediction takes its token, about five letters, and three numbers."""
        return self.predictions * PREDICTION_BYTES

    @property
    def texts(self) -> list[TokenizedText]:
        """The tokenized texts."""
        return [tokenized for tokenized, _ in self._texts]

    def answer(self, scores: Sequence[MaskScores]) -> list[list[FilledMask]]:
        """Converts one MaskScores for each of `rows` to the masks of each text.

        Raises FailedPrecondition for scores that are not finite.
        """
        if self.query.top_k:
            return self._likeliest(scores)
        check_finite(found.asked_logs for found in scores)
        return [[self._chosen(tokenized, mask, scores) for mask in masks] for tokenized, masks in self._texts]

    def _likeliest(self, scores: Sequence[MaskScores]) -> list[list[FilledMask]]:
        """Converts the likeliest words at all masks in one pass: there is a row for each text, in order."""
        logs = np.concatenate([found.top_logs for found in scores])
        check_finite([logs])
        logs = np.minimum(logs.astype(np.float64), 0.0)
        ids = np.concatenate([found.top_ids for found in scores]).tolist()
        words = {token: self.tokenizer.word(token) for token in set(chain.from_iterable(ids))}
        columns = zip(ids, logs.tolist(), np.exp(logs).tolist(), strict=True)
        ranks = range(1, self.query.top_k + 1)

        def fill(tokenized: TokenizedText, mask: _Mask) -> FilledMask:
            tokens, its_logs, probabilities = next(columns)
            named, pieces = [words[token] for token in tokens], [(token,) for token in tokens]
            span = tokenized.span(mask.position)
            return FilledMask(mask.position, span, named, pieces, its_logs, probabilities, ranks, shares=None)

        return [[fill(tokenized, mask) for mask in masks] for tokenized, masks in self._texts]

    def _chosen(self, tokenized: TokenizedText, mask: _Mask, scores: Sequence[MaskScores]) -> FilledMask:
        count = len(self.query.candidates)
        logs, ranks = np.zeros(count), np.zeros(count, dtype=np.int64)
        for length, members in mask.spelling.members.items():
            found = scores[mask.rows[length]]
            if length == 1:
                logs[members] = found.asked_logs[mask.number, : len(members)]
                ranks[members] = found.asked_ranks[mask.number, : len(members)]
            else:
                logs[members] = found.asked_logs.sum(axis=0, dtype=np.float64)
        logs = np.minimum(logs, 0.0)
        order = np.argsort(-logs, kind="stable")
        shares = np.exp(logs - np.logaddexp.reduce(logs))[order].tolist()
        logs, ranks = logs[order], ranks[order]
        words = [self.query.candidates[place] for place in order.tolist()]
        pieces = [mask.spelling.pieces[place] for place in order.tolist()]
        span, probabilities = tokenized.span(mask.position), np.exp(logs).tolist()
        return FilledMask(mask.position, span, words, pieces, logs.tolist(), probabilities, ranks.tolist(), shares)
