"""What a model would write in place of a mask.

Probabilities are softmax over the whole vocabulary at the mask. Several masks in a text are independent: each is predicted
with all the others in place. A candidate word of k pieces is scored with k masks in its place, as the product of its pieces'
probabilities there, each predicted with all k masks in place; never by its first piece alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.masks import MaskObserver, MaskScores
from bertscope_service.analyses.reading import widen
from bertscope_service.analyses.texts import character_before, check_finite, mask_positions, read_text
from bertscope_service.encoders.base import TokenSequence
from bertscope_service.errors import InvalidArgument
from bertscope_service.tokenization import TextTokenizer, TokenizedText

MAX_PREDICTIONS = 500_000
"""Most predictions in one reply; more would take seconds to write down."""

MAX_ROW_TOKENS = 1_000_000
"""Most tokens in the rows of one query, unless it says otherwise: each mask is run once more for every length of several pieces
among the candidates."""


@dataclass(frozen=True, slots=True)
class ClozeQuery:
    """A FillMask request. `top_k` is 0 where candidates are given; `max_row_tokens` is how many all rows may have."""

    texts: tuple[str, ...]
    top_k: int
    candidates: tuple[str, ...]
    truncate: bool
    max_row_tokens: int = MAX_ROW_TOKENS


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


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How the candidates are written after a certain character.

    pieces: of each candidate. members: for each number of pieces, which candidates have so many [C]. asked: the ids to score
    for them [number of pieces, C].
    """

    pieces: list[tuple[int, ...]]
    members: dict[int, NDArray[np.int64]]
    asked: dict[int, NDArray[np.int64]]


NOTHING_ASKED = np.zeros((1, 0), dtype=np.int64)
NO_CANDIDATES = _Spelling([], {}, {})


@dataclass(slots=True)
class _Mask:
    """A mask while its query is worked on; `number` counts the masks of its text.

    `rows` maps a number of pieces to the row that has so many masks here: 1 to the row that reads all masks of the text.
    """

    number: int
    position: int
    spelling: _Spelling
    rows: dict[int, int] = field(default_factory=dict)


class ClozePlan:
    """The rows that answer a query, and the way back from their scores to an answer.

    >>> plan = ClozePlan(query, tokenizer)
    >>> scores = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)

    Raises InvalidArgument for a text without a mask or too long, for a candidate that the vocabulary can't write, and for a
    query that asks for too much.
    """

    def __init__(self, query: ClozeQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        self.tokenizer = tokenizer
        self.rows: list[tuple[TokenSequence, MaskObserver]] = []
        self._row_tokens = 0
        self._spellings: dict[str, _Spelling] = {}
        reserve = 0
        if query.truncate and query.candidates:
            # Room for the longest candidate, as it is written after a blank.
            spelled = self._spellings[" "] = self._spell(" ")
            reserve = max(spelled.members) - 1
        texts = [self._read(index, text, reserve) for index, text in enumerate(query.texts)]
        self.predictions = sum(len(positions) for _, positions in texts) * max(query.top_k, len(query.candidates))
        if self.predictions > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.predictions} predictions, more than {MAX_PREDICTIONS}; ask for fewer, or in parts"
            )
            raise InvalidArgument(
                "top_k" if query.top_k else "candidates", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS
            )
        self._texts = [(tokenized, self._plan(index, tokenized, at)) for index, (tokenized, at) in enumerate(texts)]

    def _read(self, index: int, text: str, reserve: int) -> tuple[TokenizedText, tuple[int, ...]]:
        """A text's tokens, and the positions of its masks. A text that is cut leaves room for `reserve` more tokens."""
        field, reserve = f"texts[{index}]", min(reserve, self.tokenizer.max_tokens // 2)
        tokenized = read_text(self.tokenizer, text, field, truncate=self.query.truncate, reserve=reserve)
        return tokenized, mask_positions(tokenized, self.tokenizer, field)

    def _plan(self, index: int, tokenized: TokenizedText, positions: tuple[int, ...]) -> list[_Mask]:
        """The masks of a text; adds the row that reads them all, and one for each longer candidate length at each mask."""
        masks = [_Mask(number, at, self._spelling(tokenized, at)) for number, at in enumerate(positions)]
        singles = [mask.spelling.asked.get(1, NOTHING_ASKED) for mask in masks]
        width = max(single.shape[1] for single in singles)
        if self.query.top_k or width:
            asked = np.concatenate([widen(single, width) for single in singles])
            row = self._add(tokenized.sequence, MaskObserver(positions, self.query.top_k, asked))
            for mask in masks:
                mask.rows[1] = row
        for mask in masks:
            for length in sorted(mask.spelling.asked.keys() - {1}):
                mask.rows[length] = self._add_longer(index, tokenized.sequence, mask, length)
        return masks

    def _spelling(self, tokenized: TokenizedText, position: int) -> _Spelling:
        """How the candidates are written at a mask; what stands before it decides, so few of these are made."""
        if not self.query.candidates:
            return NO_CANDIDATES
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
        """Add the row with `length` masks in place of a mask."""
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
        """Add a row; its number."""
        self._row_tokens += len(sequence)
        most = self.query.max_row_tokens
        if self._row_tokens > most:
            message = f"these texts and candidates make more than {most} tokens of work; send fewer of them at a time"
            field = "candidates" if self.query.candidates else "texts"
            raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=most)
        self.rows.append((sequence, observer))
        return len(self.rows) - 1

    def answer(self, scores: Sequence[MaskScores]) -> list[FilledText]:
        """The answer, from one MaskScores for each of `rows`. Raises FailedPrecondition if the model gave no finite scores."""
        check_finite(array for found in scores for array in (found.top_logs, found.asked_logs))
        return [
            FilledText([self._fill(tokenized, mask, scores) for mask in masks], len(tokenized), tokenized.truncated)
            for tokenized, masks in self._texts
        ]

    def _fill(self, tokenized: TokenizedText, mask: _Mask, scores: Sequence[MaskScores]) -> FilledMask:
        predictions = self._top(mask, scores) if self.query.top_k else self._chosen(mask, scores)
        return FilledMask(mask.position, *tokenized.span(mask.position), predictions)

    def _top(self, mask: _Mask, scores: Sequence[MaskScores]) -> list[Prediction]:
        found = scores[mask.rows[1]]
        likeliest = zip(found.top_ids[mask.number].tolist(), found.top_logs[mask.number].tolist(), strict=True)
        return [
            Prediction(self.tokenizer.word(token), (token,), min(0.0, log), None, rank)
            for rank, (token, log) in enumerate(likeliest, start=1)
        ]

    def _chosen(self, mask: _Mask, scores: Sequence[MaskScores]) -> list[Prediction]:
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
        shares = np.exp(logs - np.logaddexp.reduce(logs))
        rows = zip(self.query.candidates, mask.spelling.pieces, logs.tolist(), shares.tolist(), ranks.tolist(), strict=True)
        predictions = [Prediction(word, pieces, log, share, rank or None) for word, pieces, log, share, rank in rows]
        return sorted(predictions, key=lambda prediction: -prediction.log_probability)
