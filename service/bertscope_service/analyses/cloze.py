"""Predictions of a model in place of a mask.

Probabilities are softmax over the whole vocabulary at the mask. Several masks in a text are independent: each is predicted
with all the others in place. A candidate word of k pieces is scored with k masks in its place, as the product of its pieces'
probabilities there, each predicted with all k masks in place; never by its first piece alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.candidates import Candidates, EntryCandidates, EntryWords, Spelling
from bertscope_service.analyses.next_sentence import next_sentence_probabilities, next_sentence_rows
from bertscope_service.analyses.observers.masks import LogitObserver, LogitScores, MaskObserver, MaskScores
from bertscope_service.analyses.observers.reading import widen
from bertscope_service.analyses.texts import character_before, check_finite, join_pairs, masks_of, read_blanks, with_masks
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenized_text import Place, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_PREDICTIONS = 500_000
"""Maximum number of predictions in one reply; more would take seconds to serialise."""

PREDICTION_BYTES = 32

MAX_ROW_TOKENS = 1_000_000
"""Default for the maximum number of tokens in the rows of one query. Each mask takes one more row for every candidate length
of two pieces or more."""


@dataclass(frozen=True, slots=True)
class ClozeQuery:
    """A FillMask request. `top_k` is 0 if there are words to score: candidates of all texts, of each one, or ids of entries;
    `max_row_tokens` is the maximum number of tokens in all rows. `text_pairs` are the second texts, if there are any, and
    `next_sentence` asks whether they follow."""

    texts: tuple[str, ...]
    top_k: int
    candidates: tuple[str, ...]
    truncate: bool
    max_row_tokens: int = MAX_ROW_TOKENS
    text_candidates: tuple[tuple[str, ...], ...] = ()
    piece_ids: tuple[int, ...] = ()
    logits: bool = False
    text_pairs: tuple[str, ...] = ()
    next_sentence: bool = False


@dataclass(slots=True, eq=False)
class FilledMask:
    """The predictions for one mask, likeliest first, in columns [n].

    position: the mask's place among the tokens. place: the text of a pair that it is in, and its span there. logs,
    probabilities: natural logarithms of the words' probabilities, and these. ranks: in the whole vocabulary from 1; 0 for words
    of several pieces. shares: probabilities among the candidates; None without candidates. logits: scores before the softmax,
    None for words of several pieces; None if they are not asked for.
    """

    position: int
    place: Place
    words: Sequence[Word]
    logs: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    ranks: Sequence[int]
    shares: NDArray[np.float64] | None = None
    logits: Sequence[float | None] | None = None


NOTHING_ASKED = np.zeros((1, 0), dtype=np.int64)


@dataclass(slots=True)
class _Mask:
    """A mask at which candidates are scored; `number` counts the masks of its text.

    `rows` maps a number of pieces to the row with that many masks here; 1 maps to the row that reads all masks of the text.
    """

    number: int
    position: int
    spelling: Spelling
    rows: dict[int, int] = field(default_factory=dict)


class ClozePlan:
    """The rows for a FillMask query, and the conversion of their scores to an answer.

    >>> plan = ClozePlan(query, tokenizer)
    >>> scores = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)
    >>> plan.next_sentence(scores)

    Raises InvalidArgument for a text without a mask (unless `next_sentence` is asked) or too long, for a candidate that the
    vocabulary can't write, and for a query with too many predictions or tokens.
    """

    def __init__(self, query: ClozeQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        self.tokenizer = tokenizer
        self.rows: list[tuple[TokenSequence, Observer]] = []
        self._row_tokens = 0
        self._planned: list[list[_Mask]] = []
        self._observe = LogitObserver if query.logits else MaskObserver
        reserve = 0
        self._candidates = [] if query.top_k else self._read_candidates()
        if query.truncate:
            # Leaves room for the longest candidate after a blank.
            reserve = max((max(words.after(" ").members) - 1 for words in self._candidates), default=0)
        inputs = join_pairs(query.texts, query.text_pairs)
        self.texts = read_blanks(tokenizer, inputs, truncate=query.truncate, reserve=reserve)
        """The tokenized texts."""
        self.masks = masks_of(self.texts, tokenizer, needed=not query.next_sentence)
        """The positions of each text's masks."""
        if query.top_k:
            self.predictions = sum(map(len, self.masks)) * query.top_k
        else:
            self.predictions = sum(len(masks) * len(words) for masks, words in zip(self.masks, self._candidates, strict=True))
        if self.predictions > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.predictions} predictions, more than {MAX_PREDICTIONS}; ask for fewer, or in parts"
            )
            raise InvalidArgument(
                "top_k" if query.top_k else "candidates", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS
            )
        if self._candidates:
            self._planned = list(map(self._plan, count(), self.texts, self.masks))
        else:
            self._ask_likeliest()
        self._mask_rows = len(self.rows)
        if query.next_sentence:
            self._count(sum(map(len, self.texts.sequences)))
            self.rows += next_sentence_rows(self.texts)

    def _read_candidates(self) -> list[Candidates]:
        """Returns the candidates of each text; texts with the same ones share them."""
        query, tokenizer = self.query, self.tokenizer
        if query.text_candidates:
            found: dict[tuple[str, ...], Candidates] = {}
            for index, words in enumerate(query.text_candidates):
                if words not in found:
                    found[words] = Candidates(words, tokenizer, f"text_candidates[{index}].words")
            return [found[words] for words in query.text_candidates]
        same = (
            EntryCandidates(query.piece_ids, tokenizer)
            if query.piece_ids
            else Candidates(query.candidates, tokenizer, "candidates")
        )
        return [same] * len(query.texts)

    def _ask_likeliest(self) -> None:
        """Adds a row for each text. Texts with masks at the same positions share an observer."""
        observers: dict[tuple[int, ...], MaskObserver] = {}
        for positions in self.masks:
            if positions and positions not in observers:
                nothing = np.zeros((len(positions), 0), dtype=np.int64)
                observers[positions] = self._observe(positions, self.query.top_k, nothing)
        texts = zip(self.texts.sequences, self.masks, strict=True)
        self.rows = [(sequence, observers[positions]) for sequence, positions in texts if positions]
        self._count(sum(len(sequence) for sequence, _ in self.rows))

    def _plan(self, index: int, tokenized: TokenizedText, positions: tuple[int, ...]) -> list[_Mask]:
        """Returns the masks of a text. Adds the row that reads them all, and one for each longer candidate length at each
        mask."""
        words = self._candidates[index]
        masks = [_Mask(number, at, words.after(character_before(tokenized, at))) for number, at in enumerate(positions)]
        singles = [mask.spelling.asked.get(1, NOTHING_ASKED) for mask in masks]
        width = max((single.shape[1] for single in singles), default=0)
        if width:
            asked = np.concatenate([widen(single, width) for single in singles])
            row = self._add(tokenized.sequence, self._observe(positions, 0, asked))
            for mask in masks:
                mask.rows[1] = row
        for mask in masks:
            for length in sorted(mask.spelling.asked.keys() - {1}):
                mask.rows[length] = self._add_longer(index, tokenized.sequence, mask, length)
        return masks

    def _add_longer(self, index: int, sequence: TokenSequence, mask: _Mask, length: int) -> int:
        """Adds the row with `length` masks in place of a mask. Returns its number."""
        if len(sequence) + length - 1 > self.tokenizer.max_tokens:
            message = (
                f"texts[{index}] has {len(sequence)} tokens and a candidate of {length} pieces does not fit in: the model "
                f"reads {self.tokenizer.max_tokens}; shorten the text"
            )
            raise InvalidArgument(f"texts[{index}]", message, "TEXT_TOO_LONG")
        places = tuple(range(mask.position, mask.position + length))
        longer = with_masks(sequence, mask.position, length)
        return self._add(longer, self._observe(places, 0, mask.spelling.asked[length]))

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

    def next_sentence(self, results: Sequence[Any]) -> list[float]:
        """Returns the probability that the second text follows, of each pair; nothing if it was not asked. `results` and errors
        as in `answer`."""
        return next_sentence_probabilities(results[self._mask_rows :])

    def answer(self, results: Sequence[Any]) -> list[list[FilledMask]]:
        """Converts the results of `rows` to the masks of each text.

        Raises FailedPrecondition for scores that are not finite.
        """
        scores: Sequence[MaskScores] = results[: self._mask_rows]
        if not scores:
            return [[] for _ in self.texts]
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
        words = map(EntryWords(self.tokenizer).of, ids)
        columns = zip(words, logs, np.exp(logs), repeat(range(1, self.query.top_k + 1)), strict=False)
        texts = zip(self.masks, self.texts.places, strict=True)
        filled = [
            [FilledMask(at, place, *next(columns)) for at, place in zip(positions, places, strict=True)]
            for positions, places in texts
        ]
        if self.query.logits:
            raw = np.concatenate([_logits(found).top_logits for found in scores]).tolist()
            for mask, logits in zip(chain.from_iterable(filled), raw, strict=True):
                mask.logits = logits
        return filled

    def _chosen(self, tokenized: TokenizedText, mask: _Mask, scores: Sequence[MaskScores]) -> FilledMask:
        size = len(mask.spelling.words)
        logs, ranks = np.zeros(size), np.zeros(size, dtype=np.int64)
        logits: list[float | None] = [None] * size
        for length, members in mask.spelling.members.items():
            found = scores[mask.rows[length]]
            if length == 1:
                logs[members] = found.asked_logs[mask.number, : len(members)]
                ranks[members] = found.asked_ranks[mask.number, : len(members)]
                if self.query.logits:
                    for member, value in zip(members.tolist(), _logits(found).asked_logits[mask.number].tolist(), strict=False):
                        logits[member] = value
            else:
                logs[members] = found.asked_logs.sum(axis=0, dtype=np.float64)
        logs = np.minimum(logs, 0.0)
        order = np.argsort(-logs, kind="stable")
        shares = np.exp(logs - np.logaddexp.reduce(logs))[order]
        logs, ranks = logs[order], ranks[order]
        words = [mask.spelling.words[place] for place in order.tolist()]
        raw = [logits[place] for place in order.tolist()] if self.query.logits else None
        return FilledMask(mask.position, tokenized.place(mask.position), words, logs, np.exp(logs), ranks.tolist(), shares, raw)


def _logits(found: MaskScores) -> LogitScores:
    """Returns the scores of a row, which were read with logits."""
    if not isinstance(found, LogitScores):
        raise TypeError("the row was read without logits")
    return found
