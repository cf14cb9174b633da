"""Defines the objectives of models that were fine-tuned for a task: labels of texts and words, values and answers.

Like all objectives they store their arguments as tuples, and raise InvalidArgument, naming the field, for those of the wrong
type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.choices import StatePooling
from bertscope.values.positions import Span, parts, span
from bertscope.values.validation import TextOrPair

__all__ = ["LabelSets", "LabelledQuestions", "LabelledTexts", "LabelledWords", "RatedTexts", "SimilarTexts"]

GoldAnswer = str | tuple[int, int]
"""An answer in the words of the passage, or its code points (start, end)."""

WORD_PARTS = "(label, start, end) or (label, start, end, segment)"


@dataclass(frozen=True)
class LabelledTexts:
    """Scores of predicting labels: "accuracy", "loss". Needs a classification head."""

    texts: Iterable[tuple[TextOrPair, str | int]]
    """(text or pair of texts, label): a string is the label's name, an integer its index."""
    truncate: bool = False

    def __post_init__(self) -> None:
        validation.keep(self, texts=validation.each("texts", self.texts, "tuples (text, label)", _labelled))
        validation.flag("truncate", self.truncate)


class HasLabels(Protocol):
    """A text with labelled words, such as a `ProbeText`."""

    @property
    def text(self) -> TextOrPair:
        """The text, or a pair."""

    @property
    def labels(self) -> Sequence[Any]:
        """Its words: (label, start, end) or (label, start, end, segment), code points."""


@dataclass(frozen=True)
class LabelledWords:
    """Scores of labelling words: "entity_f1" (if the labels are IOB1, IOB2, IOBES or BILOU), "token_accuracy", "loss". Needs a
    token classification head."""

    texts: Iterable[HasLabels]
    """Texts with labelled words, as `read_probe_texts` reads them."""
    truncate: bool = False

    def __post_init__(self) -> None:
        validation.keep(self, texts=validation.each("texts", self.texts, "ProbeTexts", _labelled_words))
        validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class _Words:
    """A text with labelled words that were checked, in the order of the text."""

    text: TextOrPair
    labels: tuple[tuple[str, Span], ...]


@dataclass(frozen=True)
class LabelSets:
    """Scores of finding the labels that hold for a text: "label_f1", "accuracy", "loss". Needs a multi-label head.

    >>> LabelSets([("The cat sat on the mat.", ["animal", "home"]), ("Rome is old.", [])]).texts[1]
    ('Rome is old.', ())
    """

    texts: Iterable[tuple[TextOrPair, Iterable[str]]]
    """(text or pair of texts, names of the labels that hold, none twice)."""
    truncate: bool = False

    def __post_init__(self) -> None:
        validation.keep(self, texts=validation.each("texts", self.texts, "tuples (text, labels)", _label_set))
        validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class RatedTexts:
    """Scores of predicting values: "pearson", "spearman", "squared_error". Needs a regression head."""

    texts: Iterable[tuple[TextOrPair, float]]
    """(text or pair of texts, gold value); not all values are equal."""
    truncate: bool = False

    def __post_init__(self) -> None:
        validation.keep(self, texts=validation.each("texts", self.texts, "tuples (text, value)", _rated))
        validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class SimilarTexts:
    """Scores of an embedding model: how the cosines of two texts' vectors, as `embed_texts` makes them, correlate with gold
    values (STS; Cer et al. 2017): "pearson", "spearman". Needs no head.

    >>> SimilarTexts([(("A cat sleeps.", "A cat is asleep."), 4.8), (("A cat sleeps.", "Stocks fell."), 0.1)]).pairs[1]
    (('A cat sleeps.', 'Stocks fell.'), 0.1)
    """

    pairs: Iterable[tuple[tuple[str, str], float]]
    """(pair of texts, gold value in any unit); at least two, and not all values are equal."""
    pooling: StatePooling | None = None
    """As in `embed_texts`: None is what the model's folder declares, else "mean"."""
    truncate: bool = False

    def __post_init__(self) -> None:
        validation.keep(self, pairs=validation.each("pairs", self.pairs, "tuples ((text, text), value)", _similar))
        validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class LabelledQuestions:
    """Scores of answering questions as SQuAD's evaluation defines them: "accuracy" (exact match), "answer_f1", and "loss".

    Needs a question answering head.

    >>> LabelledQuestions([("Who sat?", "The cat sat.", "The cat")], max_answer_tokens=5).questions
    (('Who sat?', 'The cat sat.', ((0, 7),)),)

    Long passages are read in windows, as `answer_questions` reads them; the loss is the mean over a passage's windows.
    """

    questions: Iterable[tuple[str, str, GoldAnswer | Iterable[GoldAnswer]]]
    """(question, passage, the gold answer or several, of which the best counts): a string, which stands for the place where it
    first occurs in the passage, or the code points (start, end). An empty list: the passage does not answer it."""
    max_answer_tokens: int | None = None
    """Most tokens of an answer; None means 30."""
    stride: int | None = None
    """Tokens between the beginnings of two windows; None means 128, or half a window."""
    no_answer_threshold: float | None = None
    """Predicts no answer where `no_answer_score` is over it, 0 as a rule (SQuAD 2.0); None never does, and then a question
    without an answer is an error."""
    truncate: ClassVar[bool] = False

    def __post_init__(self) -> None:
        questions = validation.many("questions", self.questions, "tuples (question, passage, answers)")
        threshold = self.no_answer_threshold
        validation.keep(
            self,
            questions=tuple(_question(f"questions[{index}]", question) for index, question in enumerate(questions)),
            no_answer_threshold=None if threshold is None else validation.finite_number("no_answer_threshold", threshold),
            **{
                name: validation.positive(name, getattr(self, name))
                for name in ("max_answer_tokens", "stride")
                if getattr(self, name) is not None
            },
        )


def _question(field: str, value: object) -> tuple[str, str, tuple[tuple[int, int], ...]]:
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise invalid_argument(field, "must be a tuple (question, passage, answers)")
    question = validation.text(f"{field}.question", value[0])
    passage = validation.text(f"{field}.passage", value[1])
    given = value[2]
    # A tuple of two numbers is one answer; of two strings or two tuples, it is two.
    one = isinstance(given, str) or (isinstance(given, tuple) and any(hasattr(part, "__index__") for part in given))
    answers = [given] if one else validation.many(f"{field}.answers", given, "answers")
    return question, passage, tuple(_gold(f"{field}.answers[{n}]", answer, passage) for n, answer in enumerate(answers))


def _gold(field: str, answer: object, passage: str) -> tuple[int, int]:
    if not isinstance(answer, str):
        start, end = validation.pair(field, answer, "(start, end), or a string")
        return validation.uint32(f"{field}.start", start), validation.uint32(f"{field}.end", end)
    start = passage.find(validation.text(field, answer))
    if start < 0 or not answer:
        raise invalid_argument(field, "does not occur in the passage; write it as the passage does, or give (start, end)")
    return start, start + len(answer)


def _labelled(field: str, value: object) -> tuple[TextOrPair, str | int]:
    text, label = validation.pair(field, value, "(text, label)")
    return validation.text_or_pair(f"{field}.input", text), _label(f"{field}.label", label)


def _labelled_words(field: str, value: object) -> _Words:
    if isinstance(value, _Words):
        return value
    text, labels = getattr(value, "text", None), getattr(value, "labels", None)
    if text is None or labels is None:
        raise invalid_argument(field, f"must be a ProbeText, not {type(value).__name__}")
    words = []
    for index, given in enumerate(validation.many(f"{field}.labels", labels, "tuples")):
        place = f"{field}.labels[{index}]"
        if isinstance(given, tuple) and given[4:] == (None,):  # a ProbeText's label of a single word
            given = given[:4]
        name, *part = parts(place, given, (3, 4), WORD_PARTS)
        words.append((validation.text(f"{place}.label", name), span(place, tuple(part))))
    return _Words(validation.text_or_pair(field, text), tuple(sorted(words, key=lambda word: (word[1].segment, word[1].start))))


def _label_set(field: str, value: object) -> tuple[TextOrPair, tuple[str, ...]]:
    text, labels = validation.pair(field, value, "(text, labels)")
    place = f"{field}.labels"
    if isinstance(labels, str):
        raise invalid_argument(place, "must be several names, as a list or a tuple; one name is [name]")
    names = [validation.text(f"{place}[{n}]", label) for n, label in enumerate(validation.many(place, labels, "names"))]
    if len(set(names)) < len(names):
        raise invalid_argument(place, "names a label twice; name each once")
    return validation.text_or_pair(f"{field}.input", text), tuple(names)


def _rated(field: str, value: object) -> tuple[TextOrPair, float]:
    text, gold = validation.pair(field, value, "(text, value)")
    return validation.text_or_pair(f"{field}.input", text), validation.finite_number(f"{field}.value", gold)


def _similar(field: str, value: object) -> tuple[tuple[str, str], float]:
    texts, gold = _rated(field, value)
    if isinstance(texts, str):
        raise invalid_argument(f"{field}.input", "must be a pair of texts (text, text), each of which gets a vector")
    return texts, gold


def _label(field: str, value: object) -> str | int:
    if isinstance(value, str):
        return validation.text(field, value)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise invalid_argument(field, f"must be a label's name or its index, not {type(value).__name__}")
    return validation.uint32(field, value)
