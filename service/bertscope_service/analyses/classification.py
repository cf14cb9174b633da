"""What a fine-tuned model says a text is: probabilities of its labels, softmax over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.probes import LabelProbe
from bertscope_service.analyses.texts import check_finite, read_input
from bertscope_service.encoders.base import TokenSequence
from bertscope_service.tokenization import TextTokenizer


@dataclass(frozen=True, slots=True)
class ClassifyQuery:
    """A Classify request."""

    inputs: tuple[tuple[str, str | None], ...]
    truncate: bool


@dataclass(frozen=True, slots=True)
class LabelPrediction:
    """One label; see bertscope.v1.LabelPrediction."""

    label: str
    index: int
    probability: float
    logit: float


@dataclass(frozen=True, slots=True)
class ClassifiedText:
    """Every label, likeliest first; `tokens` the text was read as, `truncated` tokens cut away."""

    labels: list[LabelPrediction]
    tokens: int
    truncated: int


class ClassifyPlan:
    """The rows that answer a query, and the way back from their scores to an answer.

    >>> plan = ClassifyPlan(query, tokenizer, shape.labels)
    >>> scores = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)

    Raises InvalidArgument for a text that is too long or holds no token.
    """

    def __init__(self, query: ClassifyQuery, tokenizer: TextTokenizer, labels: Sequence[str]) -> None:
        self._labels = labels
        self._texts = [
            read_input(tokenizer, text, pair, f"inputs[{index}]", truncate=query.truncate)
            for index, (text, pair) in enumerate(query.inputs)
        ]
        self.rows: list[tuple[TokenSequence, LabelProbe]] = [(tokenized.sequence, LabelProbe()) for tokenized in self._texts]

    def answer(self, scores: Sequence[NDArray[np.float32]]) -> list[ClassifiedText]:
        """The answer, from the logits [labels] of each of `rows`. Raises FailedPrecondition if they are not finite."""
        probabilities = np.exp(log_softmax(scores)).tolist()
        return [
            ClassifiedText(self._rank(row, logits.tolist()), len(tokenized), tokenized.truncated)
            for tokenized, row, logits in zip(self._texts, probabilities, scores, strict=True)
        ]

    def _rank(self, probabilities: Sequence[float], logits: Sequence[float]) -> list[LabelPrediction]:
        columns = zip(self._labels, range(len(logits)), probabilities, logits, strict=True)
        return sorted((LabelPrediction(*column) for column in columns), key=lambda prediction: -prediction.logit)


def log_softmax(scores: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Logarithms of probabilities [rows, labels] from logits. Raises FailedPrecondition if they are not finite."""
    logits = np.array(scores, dtype=np.float64)
    check_finite([logits])
    logs: NDArray[np.float64] = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return logs
