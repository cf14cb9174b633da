"""Facts whose objects are decoded: 1 to n masks are filled one by one, and the fillings compete (Jiang et al. 2020).

Each number of masks gives one filling, the likeliest entry at each step. Fillings are ordered by the mean of the logarithms of
their entries' probabilities. A right object has a rank if one of them has its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertscope_service.analyses.decoding import Blanks, Decoder, Decoding, Filling
from bertscope_service.analyses.fact_choices import Choices, Skipped, Standing
from bertscope_service.analyses.fact_queries import FactQuery, Scoring
from bertscope_service.analyses.facts import FactAnswer, FactPlan, Question
from bertscope_service.analyses.observers.masks import MaskScores
from bertscope_service.analyses.rounds import Rounds
from bertscope_service.analyses.texts import with_masks
from bertscope_service.checkpoints.entry_names import phrase_names
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

DECODINGS = {
    Scoring.LEFT_TO_RIGHT: Decoding.LEFT_TO_RIGHT,
    Scoring.CONFIDENCE_FIRST: Decoding.CONFIDENCE_FIRST,
}
"""The scorings that decode."""


class FillingChoices:
    """The fillings of 1 to `longest` masks; an object's number counts the distinct pieces of right objects."""

    scores = 0

    def __init__(self, tokenizer: TextTokenizer, longest: int, top_k: int) -> None:
        self._tokenizer, self._top_k = tokenizer, top_k
        self._right: dict[tuple[int, ...], int] = {}
        self.longest = self.size = longest

    def find(self, word: str, pieces: tuple[int, ...]) -> int | Skipped:
        if not pieces or self._tokenizer.unknown_id in pieces or len(pieces) > self.longest:
            return Skipped.NOT_WRITABLE
        return self._right.setdefault(pieces, len(self._right))

    def rows(self, sequence: TokenSequence, position: int, right: Sequence[int]) -> list[tuple[TokenSequence, Observer]]:
        raise NotImplementedError("decoding takes several rounds of rows")

    def read(self, results: Sequence[Sequence[Filling]], right: Sequence[int]) -> Standing:
        """Converts the fillings of each number of masks."""
        ordered = sorted((filling for found in results for filling in found), key=lambda each: -each.mean_log_probability)
        places = {self._right.get(filling.ids): place for place, filling in reversed(list(enumerate(ordered)))}
        found = [places.get(number) for number in right]
        ranks = [None if place is None else place + 1 for place in found]
        logs = [0.0 if place is None else ordered[place].mean_log_probability for place in found]
        best = ordered[: self._top_k]
        names = phrase_names(self._tokenizer, [filling.ids for filling in best])
        top = [(name, filling.mean_log_probability) for name, filling in zip(names, best, strict=True)]
        return Standing(ranks, logs, top)


class DecodedFactPlan(FactPlan, Rounds):
    """The rounds of rows for a query that decodes objects, and the conversion of their fillings to answers."""

    def __init__(self, query: FactQuery, tokenizer: TextTokenizer) -> None:
        self._blanks: list[Blanks] = []
        super().__init__(query, tokenizer)
        self._decoder = Decoder(self._blanks, DECODINGS[query.scoring], top_k=1)
        self.rows = self._decoder.rows

    def _choose(self, candidates: Sequence[str], before: str) -> Choices:
        return FillingChoices(self.tokenizer, self.query.max_pieces, self.query.top_k)

    def _add(self, question: Question, sequence: TokenSequence, position: int) -> int:
        begin, lengths = len(self._blanks), range(1, self.query.max_pieces + 1)
        for length in lengths:
            places = tuple(range(position, position + length))
            self._blanks.append(Blanks(with_masks(sequence, position, length), places))
        question.begin, question.end = begin, len(self._blanks)
        return sum(length * (len(sequence) + length - 1) for length in lengths)

    def advance(self, results: Sequence[MaskScores]) -> None:
        """See Rounds. Raises FailedPrecondition for scores that are not finite."""
        self._decoder.advance(results)
        self.rows = self._decoder.rows

    def answer(self, results: Sequence[Any]) -> list[list[FactAnswer]]:
        """Converts the fillings to the answers of each fact; `results`, those of the first round, are not used."""
        return super().answer(self._decoder.fillings)
