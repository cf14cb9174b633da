"""Answers to questions: the request of AnswerQuestions, its reply and its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any

from bertscope.errors import InvalidReply
from bertscope.v1 import question_answering_pb2 as answering_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, record
from bertscope.values.messages import Asked, Interventions, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AnswerSpan", "AnsweredQuestion", "AnsweredQuestions"]

ANSWER_COLUMNS = ["question", "order", "answer", "start", "end", "score", "probability", "no_answer_score", "windows"]

QuestionOnPassage = tuple[str, str]
"""A question, and the passage that may answer it."""
Questions = QuestionOnPassage | Iterable[QuestionOnPassage]
"""One question with its passage, as a tuple, or many."""


@record
class AnswerSpan:
    """A span of a passage that may answer the question."""

    text: str
    """The characters that it covers."""
    start: int
    """First code point in the passage."""
    end: int
    """One past the last code point."""
    score: float
    """Logit of its first token as a beginning plus the logit of its last token as an end."""
    probability: float
    """0 to 1: softmax over the scores of no answer and of all spans of at most `max_answer_tokens`."""


@record
class AnsweredQuestion:
    """The answers to one question."""

    question: str
    """The question."""
    passage: str
    """The passage that was searched."""
    spans: tuple[AnswerSpan, ...]
    """The best spans, best first; no two of the same characters."""
    no_answer_score: float
    """Score of no answer minus that of the best span; over 0 means that no answer fits better. It says nothing about a model
    that was trained on answerable questions alone."""
    no_answer_probability: float
    """0 to 1: softmax over the scores of no answer and of all spans."""
    windows: int
    """Number of windows that the passage was read in."""
    tokens: int
    """Number of tokens of the question and the passage, each counted once, and of the special tokens of one window."""
    provenance: Provenance
    """Provenance of the answers."""

    @property
    def answer(self) -> str:
        """The best span's text."""
        return self.spans[0].text

    def answer_or_none(self, threshold: float = 0.0) -> str | None:
        """Returns the best span's text, or None if `no_answer_score` is over the threshold (SQuAD 2.0)."""
        return None if self.no_answer_score > threshold else self.answer

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: the best span, all spans, and the score of no answer."""
        return {
            "predicted_answer": self.answer,
            "answers": [span.text for span in self.spans],
            "starts": [span.start for span in self.spans],
            "ends": [span.end for span in self.spans],
            "scores": [span.score for span in self.spans],
            "probabilities": [span.probability for span in self.spans],
            "no_answer_score": self.no_answer_score,
            "no_answer_probability": self.no_answer_probability,
            "windows": self.windows,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each span; columns as `AnsweredQuestions.to_pandas`."""
        return _table([self])


class AnsweredQuestions(Results[AnsweredQuestion]):
    """The answers of one `answer_questions` call, one for each question, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each span: question, order (1 is the best), answer, start, end, score, probability,
        no_answer_score, windows. Needs the extra "pandas"."""
        return _table(self)


def asked_questions(questions: Questions) -> Asked[answering_pb2.Question]:
    """Returns any number of questions. A sequence is checked at once, an iterator as it is read."""
    if isinstance(questions, tuple) and any(isinstance(part, str) for part in questions):
        questions = [questions]
    values = enumerate(validation.many("questions", questions, "questions with their passages"))
    messages = (_question(f"inputs[{index}]", value) for index, value in values)
    if isinstance(questions, Sized):
        checked = list(messages)
        return Asked(iter(checked), len(checked))
    return Asked(messages, None)


def _question(field: str, value: object) -> answering_pb2.Question:
    question, passage = validation.pair(field, value, "(question, passage)")
    return answering_pb2.Question(
        question=validation.text(f"{field}.question", question), passage=validation.text(f"{field}.passage", passage)
    )


def answer_questions_request(
    *,
    model: str | Model | None,
    best: int | None,
    max_answer_tokens: int | None,
    stride: int | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> answering_pb2.AnswerQuestionsRequest:
    """Returns the request of AnswerQuestions, without its questions."""

    def unless_none(name: str, value: int | None) -> int | None:
        return None if value is None else validation.positive(name, value)

    return answering_pb2.AnswerQuestionsRequest(
        model=model_name("model", model),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        best=unless_none("best", best),
        max_answer_tokens=unless_none("max_answer_tokens", max_answer_tokens),
        stride=unless_none("stride", stride),
    )


def read_answered_questions(
    asked: Sequence[answering_pb2.Question], response: answering_pb2.AnswerQuestionsResponse
) -> AnsweredQuestions:
    """Returns the answers, each with its question."""
    if len(response.results) != len(asked):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(asked)} questions")
    source = provenance(response.provenance)
    return AnsweredQuestions(
        _answered(question, result, source) for question, result in zip(asked, response.results, strict=True)
    )


def _answered(asked: answering_pb2.Question, result: answering_pb2.AnsweredQuestion, source: Provenance) -> AnsweredQuestion:
    passage = asked.passage
    if not result.spans:
        raise InvalidReply("the server answered a question without a span")
    if any(not span.start < span.end <= len(passage) for span in result.spans):
        raise InvalidReply("the server sent a span that is not in the passage")
    return AnsweredQuestion(
        question=asked.question,
        passage=passage,
        spans=tuple(
            AnswerSpan(passage[span.start : span.end], span.start, span.end, span.score, span.probability)
            for span in result.spans
        ),
        no_answer_score=result.no_answer_score,
        no_answer_probability=result.no_answer_probability,
        windows=result.windows,
        tokens=result.tokens,
        provenance=source,
    )


def _table(results: Iterable[AnsweredQuestion]) -> pd.DataFrame:
    """Returns a row for each span."""
    rows = [
        (
            *(result.question, order, span.text, span.start, span.end, span.score, span.probability),
            *(result.no_answer_score, result.windows),
        )
        for result in results
        for order, span in enumerate(result.spans, start=1)
    ]
    return data_frame(rows, ANSWER_COLUMNS)
