"""Exact match and F1 of answers to questions, and the loss of their gold beginnings and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.answer_metrics import f1, words_of_answer
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.answers import AnswerObserver
from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.analyses.passages import Passage, PassageQuestion, Window, read_passages
from bertscope_service.analyses.question_answering import find_answers
from bertscope_service.analyses.texts import check_finite
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_ROW_TOKENS = 20_000_000
"""Maximum number of tokens in the rows of one query: 40,000 windows of 512 tokens."""
STRIDE_FIELD = "objective.question_answering.stride"
NOWHERE = (0, 0)
"""The gold beginning and end of a window that has no whole answer, as in the training of BERT: the first position."""


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question and the code points [start, end) of its gold answers; none if the passage does not answer it. `field` names it
    in errors."""

    asked: PassageQuestion
    answers: tuple[tuple[int, int], ...]
    field: str


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """A query for questions; see bertscope.v1.LabelledQuestions. `stride` None is the usual one, `no_answer_threshold` None
    never predicts that there is no answer."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.ACCURACY, Metric.ANSWER_F1, Metric.LOSS)
    has_loss: ClassVar[bool] = True

    questions: tuple[LabelledQuestion, ...]
    max_answer_tokens: int
    stride: int | None
    no_answer_threshold: float | None


class AnsweredObjective:
    """One row for each window of each passage. Raises InvalidArgument for texts that can't be read (see read_passages) and for
    an answer that holds no token."""

    metrics = AnsweredQuery.metrics
    skipped = truncated = pieces = 0

    def __init__(self, query: AnsweredQuery, tokenizer: TextTokenizer) -> None:
        self._query = query
        self.items = len(query.questions)
        asked = [question.asked for question in query.questions]
        remedy = "send fewer questions or shorter passages, or use a larger stride"
        self._passages = list(read_passages(tokenizer, asked, query.stride, MAX_ROW_TOKENS, remedy, STRIDE_FIELD))
        observers = list[AnswerObserver]()
        for question, passage in zip(query.questions, self._passages, strict=True):
            golds = [_tokens(passage, question, number) for number in range(len(question.answers))]
            share = 1 / len(passage.windows)
            observers += (AnswerObserver(_places(golds, window), share) for window in passage.windows)
        self.sequences: Sequence[TokenSequence] = [window.sequence for passage in self._passages for window in passage.windows]
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers
        self._golds = [observer.golds for observer in observers]
        self._words = [_gold_words(question) for question in query.questions]

    def later_observers(self, untouched: Sequence[NDArray[np.float32]]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [3, questions]: exact match and F1, each with the gold answer for which it is highest, and the loss, the mean
        over the windows, nats."""
        check_finite(seen)
        return np.array(list(self._measured(seen)), dtype=np.float64).T

    def _measured(self, seen: Sequence[NDArray[np.float32]]) -> Iterator[tuple[float, float, float]]:
        query, row = self._query, 0
        for question, passage, golds in zip(query.questions, self._passages, self._words, strict=True):
            rows = range(row, row + len(passage.windows))
            row = rows.stop
            scores = [seen[number].astype(np.float64) for number in rows]
            found = find_answers(passage, scores, query.max_answer_tokens, 1)
            (best,) = found.spans
            missing = query.no_answer_threshold is not None and found.no_answer_score > query.no_answer_threshold
            words = () if missing else words_of_answer(question.asked.passage[best.start : best.end])
            losses = [loss(logits, self._golds[number]) for logits, number in zip(scores, rows, strict=True)]
            yield float(words in golds), max(f1(words, gold) for gold in golds), float(np.mean(losses))


def loss(scores: NDArray[np.float64], golds: Sequence[tuple[int, int]]) -> float:
    """Returns the mean of -ln P of the beginning and of the end, of the gold answer for which it is least, nats."""
    logs = scores - np.logaddexp.reduce(scores, axis=0)
    return max(0.0, min(-float(logs[first, 0] + logs[last, 1]) / 2 for first, last in golds))


def _tokens(passage: Passage, question: LabelledQuestion, number: int) -> tuple[int, int]:
    """Returns the first and the last passage token that share a character with a gold answer."""
    start, end = question.answers[number]
    starts, ends = passage.spans.T
    held = np.flatnonzero((starts < ends) & (starts < end) & (ends > start))
    if not len(held):
        field = f"{question.field}.answers[{number}]"
        message = f"{field} holds no token of this model's vocabulary; name whole words, or leave it out"
        raise InvalidArgument(field, message, "NO_PIECE")
    return int(held[0]), int(held[-1])


def _places(golds: Sequence[tuple[int, int]], window: Window) -> tuple[tuple[int, int], ...]:
    """Returns the positions of gold answers in a window's row; NOWHERE if none is in it whole."""
    shift, stop = window.offset - window.first, window.first + len(window.owned)
    inside = [(first + shift, last + shift) for first, last in golds if window.first <= first and last < stop]
    return tuple(dict.fromkeys(inside)) or (NOWHERE,)


def _gold_words(question: LabelledQuestion) -> tuple[tuple[str, ...], ...]:
    """Returns the words of each gold answer; no words if there is none, or if no answer has any."""
    passage = question.asked.passage
    found = (words_of_answer(passage[start:end]) for start, end in question.answers)
    return tuple(words for words in found if words) or ((),)
