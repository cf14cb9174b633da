"""Sets of texts of which one is right, compared by their scores: minimal pairs, and larger sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np

from bertscope_service.analyses.masked_rows import MaskedRows, Scoring
from bertscope_service.analyses.observers.predictions import GoldScores
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery
from bertscope_service.checkpoints.tokenizer import TextTokenizer

ALONE = (
    "mark the words that differ with spans, so that they alone are scored, or score its texts with ScoreTexts, which takes "
    "long ones in parts, and compare the sums"
)
"""The remedy for a single set that is too much work."""


class Outcome(Enum):
    """The result of a comparison; see bertscope.v1.ComparedSet.Outcome."""

    RIGHT = "right"
    TIE = "tie"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class TextSet:
    """Texts of which that at the index `right` is right, and the groups that the set counts for."""

    texts: tuple[ScoredInput, ...]
    right: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompareQuery:
    """A CompareTexts request."""

    sets: tuple[TextSet, ...]
    scoring: Scoring
    truncate: bool
    max_row_tokens: int


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """The scores of a set's texts, nats, and its result. difference: the right text's score minus the best of the others."""

    scores: tuple[float, ...]
    pieces: tuple[int, ...]
    difference: float
    truncated: int

    @property
    def outcome(self) -> Outcome:
        """The result: texts that read the same have the same rows, and so tie exactly."""
        return Outcome.RIGHT if self.difference > 0 else Outcome.WRONG if self.difference < 0 else Outcome.TIE


@dataclass(slots=True)
class Counts:
    """Counts of sets by outcome, and sums of their differences."""

    group: str
    right: int = 0
    tied: int = 0
    wrong: int = 0
    sum: float = 0.0
    squares: float = 0.0

    def add(self, compared: ComparedSet) -> None:
        """Counts a set."""
        self.right += compared.outcome is Outcome.RIGHT
        self.tied += compared.outcome is Outcome.TIE
        self.wrong += compared.outcome is Outcome.WRONG
        self.sum += compared.difference
        self.squares += compared.difference**2


class ComparisonPlan:
    """The plan to compare sets: the scores of all of their texts. Raises InvalidArgument, as ScorePlan does."""

    def __init__(self, query: CompareQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        inputs = tuple(text for one in query.sets for text in one.texts)
        field, remedy = ("sets[0]", ALONE) if len(query.sets) == 1 else ("sets", "send fewer sets at a time")
        self.scores = ScorePlan(
            ScoreQuery(inputs, query.scoring, query.truncate, query.max_row_tokens, field=field, remedy=remedy), tokenizer
        )

    @property
    def masked(self) -> MaskedRows:
        """The rows."""
        return self.scores.masked

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        return self.scores.reply_bytes

    def answer(self, seen: Sequence[GoldScores]) -> list[ComparedSet]:
        """Compares the texts of each set. Raises FailedPrecondition for scores that are not finite."""
        found = self.scores.answer(seen)
        ends = np.cumsum([0, *(len(one.texts) for one in self.query.sets)]).tolist()
        compared = []
        for one, (start, end) in zip(self.query.sets, pairwise(ends), strict=True):
            scores = [score.log_likelihood for score in found[start:end]]
            best = max(score for index, score in enumerate(scores) if index != one.right)
            compared.append(
                ComparedSet(
                    tuple(scores),
                    tuple(len(score.logs) for score in found[start:end]),
                    scores[one.right] - best,
                    sum(text.truncated for text in self.scores.texts[start:end]),
                )
            )
        return compared

    def counts(self, compared: Sequence[ComparedSet]) -> list[Counts]:
        """Counts all sets, then those of each group, in the order in which groups are named first."""
        whole, groups = Counts(""), dict[str, Counts]()
        for one, result in zip(self.query.sets, compared, strict=True):
            whole.add(result)
            for name in one.groups:
                groups.setdefault(name, Counts(name)).add(result)
        return [whole, *groups.values()]
