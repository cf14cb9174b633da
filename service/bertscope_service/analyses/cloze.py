"""Predictions of a model in place of a mask.

Probabilities are softmax over the whole vocabulary at the mask. Several masks in a text are independent: each is predicted
with all the others in place. A candidate word of k pieces is scored with k masks in its place, as the product of its pieces'
probabilities there, each predicted with all k masks in place; never by its first piece alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count

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


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """A word that may fill a mask, and the ids of its pieces. There is one object for each word of an answer."""

    text: str
    pieces: tuple[int, ...]


@dataclass(slots=True, eq=False)
class FilledMask:
    """The predictions for one mask, likeliest first, in columns [n].

    position, span: the mask's place among the tokens, and in the text. logs, probabilities: natural logarithms of the words'
    probabilities, and these. ranks: in the whole vocabulary from 1; 0 for words of several pieces. shares: probabilities among
    the candidates; None without candidates.
    """

    position: int
    span: tuple[int, int]
    words: Sequence[Word]
    logs: Sequence[float]
    probabilities: Sequence[float]
    ranks: Sequence[int]
    shares: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class _Spelling:
    """The candidates as they are written after a given character.

    members: for each number of pieces, the candidates with that many [C]. asked: the ids to score for them [number of pieces,
    C].
    """

    words: list[Word]
    members: dict[int, NDArray[np.int64]]
    asked: dict[int, NDArray[np.int64]]


NOTHING_ASKED = np.zeros((1, 0), dtype=np.int64)


@dataclass(slots=True)
class _Mask:
    """A mask at which candidates are scored; `number` counts the masks of its text.

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
        self._planned: list[list[_Mask]] = []
        reserve = 0
        if query.truncate and query.candidates:
            # Leaves room for the longest candidate after a blank.
            spelled = self._spellings[" "] = self._spell(" ")
            reserve = max(spelled.members) - 1
        self.texts = self._tokenize(reserve)
        """The tokenized texts."""
        self._masks = [mask_positions(text, tokenizer, f"texts[{index}]") for index, text in enumerate(self.texts)]
        """The positions of each text's masks."""
        self.predictions = sum(map(len, self._masks)) * max(query.top_k, len(query.candidates))
        if self.predictions > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.predictions} predictions, more than {MAX_PREDICTIONS}; ask for fewer, or in parts"
            )
            raise InvalidArgument(
                "top_k" if query.top_k else "candidates", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS
            )
        if query.candidates:
            self._planned = list(map(self._plan, count(), self.texts, self._masks))
        else:
            self._ask_likeliest()

    def _tokenize(self, reserve: int) -> list[TokenizedText]:
        """Returns the tokens of each text. A text that is cut leaves room for `reserve` more tokens."""
        longest = self.tokenizer.max_tokens
        inputs = [(text,) for text in self.query.texts]
        texts = self.tokenizer.encode_all(inputs, truncate=self.query.truncate, reserve=min(reserve, longest // 2))
        for index, text in enumerate(texts):
            check_length(text, f"texts[{index}]", longest)
        return texts

    def _ask_likeliest(self) -> None:
        """Adds a row for each text. Texts with masks at the same positions share an observer."""
        observers: dict[tuple[int, ...], MaskObserver] = {}
        for positions in self._masks:
            if positions not in observers:
                nothing = np.zeros((len(positions), 0), dtype=np.int64)
                observers[positions] = MaskObserver(positions, self.query.top_k, nothing)
        self.rows = [(text.sequence, observers[positions]) for text, positions in zip(self.texts, self._masks, strict=True)]
        self._count(sum(map(len, self.texts)))

    def _plan(self, index: int, tokenized: TokenizedText, positions: tuple[int, ...]) -> list[_Mask]:
        """Returns the masks of a text. Adds the row that reads them all, and one for each longer candidate length at each
        mask."""
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
        words = [Word(word, self._pieces(index, word, before)) for index, word in enumerate(self.query.candidates)]
        members: dict[int, list[int]] = defaultdict(list)
        for candidate, word in enumerate(words):
            members[len(word.pieces)].append(candidate)
        asked = {
            length: np.array([words[c].pieces for c in chosen], dtype=np.int64).T.copy() for length, chosen in members.items()
        }
        return _Spelling(words, {length: np.array(chosen) for length, chosen in members.items()}, asked)

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
        self._count(len(sequence))
        self.rows.append((sequence, observer))
        return len(self.rows) - 1

    def _count(self, tokens: int) -> None:
        """Counts the tokens of rows. Raises InvalidArgument if there are too many."""
        self._row_tokens += tokens
        most = self.query.max_row_tokens
        if self._row_tokens > most:
            message = f"these texts and candidates make more than {most} tokens of work; send fewer of them at a time"
            field = "candidates" if self.query.candidates else "texts"
            raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=most)

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes: each prediction takes its token, about five letters, and three numbers."""
        return self.predictions * PREDICTION_BYTES

    def answer(self, scores: Sequence[MaskScores]) -> list[list[FilledMask]]:
        """Converts one MaskScores for each of `rows` to the masks of each text.

        Raises FailedPrecondition for scores that are not finite.
        """
        if self.query.top_k:
            return self._likeliest(scores)
        check_finite(found.asked_logs for found in scores)
        return [
            [self._chosen(text, mask, scores) for mask in masks] for text, masks in zip(self.texts, self._planned, strict=True)
        ]

    def _likeliest(self, scores: Sequence[MaskScores]) -> list[list[FilledMask]]:
        """Converts the likeliest words at all masks in one pass: there is a row for each text, in order."""
        logs = np.concatenate([found.top_logs for found in scores])
        check_finite([logs])
        logs = np.minimum(logs.astype(np.float64), 0.0)
        ids = np.concatenate([found.top_ids for found in scores]).tolist()
        words = {token: Word(self.tokenizer.word(token), (token,)) for token in set(chain.from_iterable(ids))}
        columns = zip(ids, logs.tolist(), np.exp(logs).tolist(), strict=True)
        ranks = range(1, self.query.top_k + 1)

        def fill(text: TokenizedText, position: int) -> FilledMask:
            tokens, its_logs, probabilities = next(columns)
            return FilledMask(position, text.span(position), [words[token] for token in tokens], its_logs, probabilities, ranks)

        return [[fill(text, at) for at in positions] for text, positions in zip(self.texts, self._masks, strict=True)]

    def _chosen(self, tokenized: TokenizedText, mask: _Mask, scores: Sequence[MaskScores]) -> FilledMask:
        size = len(self.query.candidates)
        logs, ranks = np.zeros(size), np.zeros(size, dtype=np.int64)
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
        words = [mask.spelling.words[place] for place in order.tolist()]
        span, probabilities = tokenized.span(mask.position), np.exp(logs).tolist()
        return FilledMask(mask.position, span, words, logs.tolist(), probabilities, ranks.tolist(), shares)
