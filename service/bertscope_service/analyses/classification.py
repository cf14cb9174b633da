"""Texts read by a fine-tuned model: probabilities of its labels, or the value that it gives each text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.predictions import LabelObserver
from bertscope_service.analyses.texts import check_finite, read_sequences
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence

LABEL_BYTES = 24


@dataclass(frozen=True, slots=True)
class ClassifyQuery:
    """A Classify request."""

    inputs: tuple[tuple[str, str | None], ...]
    truncate: bool


class ClassifyPlan:
    """The rows for a Classify query, and the conversion of their scores to an answer.

    >>> plan = ClassifyPlan(query, tokenizer, shape.labels)  # or shape.head_labels, multi_label=True
    >>> scores = await engine.run(plan.rows, ...)
    >>> plan.answer(scores)

    Raises InvalidArgument for a text that is too long or holds no token.
    """

    def __init__(
        self, query: ClassifyQuery, tokenizer: TextTokenizer, labels: Sequence[str], *, multi_label: bool = False
    ) -> None:
        self.labels, self.multi_label = labels, multi_label
        self.texts = read_sequences(tokenizer, query.inputs, "inputs", truncate=query.truncate)
        observer = LabelObserver()
        self.rows: list[tuple[TokenSequence, LabelObserver]] = [(sequence, observer) for sequence in self.texts.sequences]

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes: each label takes its name and three numbers."""
        return len(self.texts) * sum(len(label) + LABEL_BYTES for label in self.labels)

    def answer(self, scores: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the labels of each text, likeliest first, and the probability of each label: both [texts, labels].

        scores: the logits [labels] of each of `rows`. Raises FailedPrecondition if they are not finite.
        """
        probabilities: NDArray[np.float64] = np.exp((log_sigmoid if self.multi_label else log_softmax)(scores))
        return np.argsort(-np.array(scores), axis=1, kind="stable"), probabilities


class PredictValuesPlan(ClassifyPlan):
    """The rows for the values of texts, and the values. The arguments and errors are those of ClassifyPlan, without labels."""

    def __init__(self, query: ClassifyQuery, tokenizer: TextTokenizer) -> None:
        super().__init__(query, tokenizer, ())

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        return len(self.texts) * LABEL_BYTES

    def values(self, scores: Sequence[NDArray[np.float32]]) -> list[float]:
        """Returns the value of each text. scores: the output [1] of each of `rows`. Raises FailedPrecondition if one is not
        finite."""
        check_finite(scores)
        return [float(score[0]) for score in scores]


def log_sigmoid(scores: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Converts logits to the logarithm of each label's own probability [rows, labels]. Raises FailedPrecondition if they are
    not finite."""
    logits = np.array(scores, dtype=np.float64)
    check_finite([logits])
    logs: NDArray[np.float64] = -np.logaddexp(0.0, -logits)
    return logs


def log_softmax(scores: Sequence[NDArray[np.float32]] | NDArray[np.float32]) -> NDArray[np.float64]:
    """Converts logits to log-probabilities [rows, labels]. Raises FailedPrecondition if they are not finite."""
    logits = np.array(scores, dtype=np.float64)
    check_finite([logits])
    logs: NDArray[np.float64] = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return logs
