"""The masked-LM head read at every layer: what a state predicts before all layers have run ("logit lens", nostalgebraist 2020).

Every state goes through the model's own head. The head was trained on last states alone, so early predictions are those of a
reader that does not know the layer; the maps of a tuned lens (Belrose et al. 2023) make one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.candidates import Candidates
from bertscope_service.analyses.cloze import MAX_PREDICTIONS, PREDICTION_BYTES
from bertscope_service.analyses.observers.lens import LensObserver, LensScores, Translators, joined
from bertscope_service.analyses.observers.word_maps import NOWHERE
from bertscope_service.analyses.texts import character_before, check_finite, mask_positions, read_named_inputs
from bertscope_service.analyses.words import Span, refuse_empty, spans_of_pieces
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

ROW_POSITIONS = 128
"""The most positions that a row reads. The head costs more than the layers below it: a text that is read whole, of 512 tokens,
would keep the device from others for seconds."""


@dataclass(frozen=True, slots=True)
class LensInput:
    """A text or pair, and the parts to read; see bertscope.v1.LensInput."""

    text: str
    pair: str | None
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class LensQuery:
    """A ReadLayers request. `layers` are states, in the requested order, never empty; `normalise` says whether those before the
    last get the model's last normalisation, after the maps of a tuned lens if there are `translators`."""

    inputs: tuple[LensInput, ...]
    layers: tuple[int, ...]
    top_k: int
    candidates: tuple[str, ...]
    all_pieces: bool
    normalise: bool
    truncate: bool
    translators: Translators | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LensText:
    """The positions of a text to read, its tokens, and the candidates at each position."""

    tokenized: TokenizedText
    pieces: list[Piece]
    positions: tuple[int, ...]
    candidates: list[list[Word]]


class LensPlan:
    """The rows for a ReadLayers query, one for each 128 positions of a text.

    Raises InvalidArgument for a text that is too long or has no position to read, for a candidate that is not a single entry of
    the vocabulary, and for a reply that is too large.
    """

    def __init__(self, query: LensQuery, tokenizer: TextTokenizer) -> None:
        self.query, self.tokenizer = query, tokenizer
        self._candidates = Candidates(query.candidates, tokenizer, "candidates")
        fields = [f"inputs[{index}]" for index in range(len(query.inputs))]
        inputs = [(given.text, given.pair) for given in query.inputs]
        marked = [given.spans for given in query.inputs]
        read = read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate, words=marked)
        self.texts = [self._read(*one) for one in zip(fields, query.inputs, read, strict=True)]
        """The texts, in order."""
        self._check_size()
        self.rows: list[tuple[TokenSequence, LensObserver]] = [
            (text.tokenized.sequence, self._observer(text, part)) for text in self.texts for part in _parts(text)
        ]

    def _read(self, field: str, given: LensInput, tokenized: TokenizedText) -> LensText:
        if given.spans:
            numbers = spans_of_pieces(tokenized, given.spans)
            refuse_empty(field, given.spans, set(numbers), tokenized)
            positions = tuple(place for place, number in enumerate(numbers) if number != NOWHERE)
        elif self.query.all_pieces:
            positions = tuple(range(len(tokenized)))
        else:
            positions = mask_positions(tokenized, self.tokenizer, field)
        pieces, candidates = tokenized.pieces(self.tokenizer), list[list[Word]]()
        if self.query.candidates:
            # A later piece of a word is read as if it were the first: there, no word would be a single entry.
            first = {(piece.segment, piece.word): place for place, piece in reversed([*enumerate(pieces)])}
            starts = (at if pieces[at].special else first[pieces[at].segment, pieces[at].word] for at in positions)
            candidates = [self._entries(character_before(tokenized, start)) for start in starts]
        return LensText(tokenized, pieces, positions, candidates)

    def _entries(self, before: str) -> list[Word]:
        words = self._candidates.after(before).words
        for index, word in enumerate(words):
            require_entry(word, f"candidates[{index}]")
        return words

    def _check_size(self) -> None:
        if self.scores > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self.scores} scores, more than {MAX_PREDICTIONS}; ask for fewer texts, positions, "
                "layers or entries at a time"
            )
            raise InvalidArgument("inputs", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS)

    def _observer(self, text: LensText, part: slice) -> LensObserver:
        """Returns the observer of some positions; it scores the piece of each position first, then its candidates."""
        positions = text.positions[part]
        own = np.array([[text.pieces[at].id] for at in positions], dtype=np.int64)
        asked = own
        if text.candidates:
            given = np.array([[word.pieces[0] for word in words] for words in text.candidates[part]], dtype=np.int64)
            asked = np.concatenate([own, given], axis=1)
        query = self.query
        return LensObserver(positions, query.layers, query.top_k, asked, query.normalise, query.translators)

    @property
    def scores(self) -> int:
        """The number of scores of entries in the reply."""
        each = self.query.top_k + len(self.query.candidates) + 1
        return sum(len(text.positions) for text in self.texts) * len(self.query.layers) * each

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        return self.scores * PREDICTION_BYTES

    def answer(self, results: Sequence[LensScores]) -> Sequence[LensScores]:
        """Returns the scores of each text; raises FailedPrecondition for scores that are not finite."""
        check_finite(
            array for found in results for array in (found.top_logs, found.asked_logs, found.entropies, found.divergences)
        )
        rows = iter(results)
        return [joined([next(rows) for _ in _parts(text)]) for text in self.texts]


def _parts(text: LensText) -> list[slice]:
    """Returns the parts of a text's positions that a row each reads."""
    return [slice(begin, begin + ROW_POSITIONS) for begin in range(0, len(text.positions), ROW_POSITIONS)]


def require_entry(word: Word, field: str) -> int:
    """Returns the id of a word that is one entry of the vocabulary. Raises InvalidArgument for a word of several."""
    if len(word.pieces) == 1:
        return word.pieces[0]
    message = (
        f"{field} has {len(word.pieces)} pieces in this model's vocabulary, and only single entries can be read here; "
        "leave it out or give another word"
    )
    raise InvalidArgument(field, message, "NOT_ONE_PIECE")


def at_most_zero(logs: NDArray[np.float32]) -> list[float]:
    """Returns logarithms of probabilities as numbers, without the rounding that puts some above 0."""
    found: list[float] = np.minimum(logs.astype(np.float64), 0.0).tolist()
    return found
