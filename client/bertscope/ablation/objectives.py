"""Defines the objectives of sweeps and rankings, and the curve of removals.

An objective stores its arguments as tuples, so that it may be used for any number of calls. Making one raises
InvalidArgument, naming the field, for arguments of the wrong type; the server checks their number (1 to 10,000 items).
`truncate` cuts texts that the model cannot read whole; without it they are an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args

import numpy as np

from bertscope import _validation
from bertscope._validation import TextOrPair
from bertscope.choices import Metric, Order, Scoring
from bertscope.errors import invalid_argument
from bertscope.spans import Span, parts, span

GoldAnswer = str | tuple[int, int]
"""An answer in the words of the passage, or its code points (start, end)."""

WORD_PARTS = "(label, start, end) or (label, start, end, segment)"
SCORINGS, ORDERS, METRICS = get_args(Scoring), get_args(Order), get_args(Metric)


@dataclass(frozen=True)
class MaskedLmLoss:
    """Loss of predicting masked words of texts: "loss", nats. Needs a masked-LM head.

    >>> MaskedLmLoss(["The cat sat on the mat."], seed=1).texts
    ('The cat sat on the mat.',)
    """

    texts: str | Iterable[str]
    """Texts, each with at least one word."""
    seed: int = 0
    """Chooses the words that are masked, the same ones whatever heads are changed."""
    mask_share: float | None = None
    """Share of each text's words to mask, over 0 to 1; None means 0.15. At least one word of every text is masked."""
    truncate: bool = False

    def __post_init__(self) -> None:
        share = None if self.mask_share is None else _validation.finite_number("mask_share", self.mask_share)
        _keep(
            self,
            texts=tuple(_validation.texts("texts", self.texts)),
            seed=_validation.uint64("seed", self.seed),
            mask_share=share,
        )
        _validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class ClozePrompts:
    """Scores of filling prompts: "accuracy", "reciprocal_rank", "loss". Needs a masked-LM head.

    >>> ClozePrompts([("Paris is the capital of [MASK].", "France")]).prompts
    (('Paris is the capital of [MASK].', ('France',)),)
    """

    prompts: Iterable[tuple[str, str | Iterable[str]]]
    """(text with exactly one "[MASK]", the gold answer or several, of which the likeliest counts)."""
    skip_multi_piece: bool = False
    """True: leave out, and count, prompts none of whose answers is a single piece of the vocabulary, so that it has no rank.
    False: such a prompt is an error."""
    truncate: bool = False

    def __post_init__(self) -> None:
        prompts = _validation.many("prompts", self.prompts, "tuples (text, answers)")
        _keep(self, prompts=tuple(_prompt(f"prompts[{index}]", prompt) for index, prompt in enumerate(prompts)))
        _validation.flag("skip_multi_piece", self.skip_multi_piece)
        _validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class MinimalPairs:
    """Share of pairs whose better sentence gets the higher pseudo-log-likelihood: "accuracy". Needs a masked-LM head."""

    pairs: Iterable[tuple[str, str]]
    """(the better sentence, the worse one)."""
    scoring: Scoring = "within_word"
    """"within_word" masks the later pieces of a word along with each piece (Kauf and Ivanova 2023), "original" the
    piece alone (Salazar et al. 2020), "whole_word" all pieces of the word."""
    truncate: bool = False

    def __post_init__(self) -> None:
        pairs = _validation.many("pairs", self.pairs, "tuples (good, bad)")
        _keep(self, pairs=tuple(_minimal_pair(f"pairs[{index}]", pair) for index, pair in enumerate(pairs)))
        _validation.choice("scoring", self.scoring, dict.fromkeys(SCORINGS))
        _validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class LabelledTexts:
    """Scores of predicting labels: "accuracy", "loss". Needs a classification head."""

    texts: Iterable[tuple[TextOrPair, str | int]]
    """(text or pair of texts, label): a string is the label's name, an integer its index."""
    truncate: bool = False

    def __post_init__(self) -> None:
        texts = _validation.many("texts", self.texts, "tuples (text, label)")
        _keep(self, texts=tuple(_labelled(f"texts[{index}]", text) for index, text in enumerate(texts)))
        _validation.flag("truncate", self.truncate)


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
        texts = _validation.many("texts", self.texts, "ProbeTexts")
        _keep(self, texts=tuple(_labelled_words(f"texts[{index}]", text) for index, text in enumerate(texts)))
        _validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class _Words:
    """A text with labelled words that were checked, in the order of the text."""

    text: TextOrPair
    labels: tuple[tuple[str, Span], ...]


@dataclass(frozen=True)
class Divergence:
    """Divergence of predictions from those of the untouched model: "divergence", nats. Needs no gold answers.

    It compares the predictions at the masks of a masked-LM, the labels of a classifier, of which one or any number may hold, or
    those of each word.
    """

    inputs: TextOrPair | Iterable[TextOrPair]
    """Texts or pairs of texts; for a masked-LM each with at least one "[MASK]"."""
    truncate: bool = False

    def __post_init__(self) -> None:
        _keep(self, inputs=_validation.texts_or_pairs("inputs", self.inputs))
        _validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class RatedTexts:
    """Scores of predicting values: "pearson", "spearman", "squared_error". Needs a regression head."""

    texts: Iterable[tuple[TextOrPair, float]]
    """(text or pair of texts, gold value); not all values are equal."""
    truncate: bool = False

    def __post_init__(self) -> None:
        texts = _validation.many("texts", self.texts, "tuples (text, value)")
        _keep(self, texts=tuple(_rated(f"texts[{index}]", text) for index, text in enumerate(texts)))
        _validation.flag("truncate", self.truncate)


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
        questions = _validation.many("questions", self.questions, "tuples (question, passage, answers)")
        threshold = self.no_answer_threshold
        _keep(
            self,
            questions=tuple(_question(f"questions[{index}]", question) for index, question in enumerate(questions)),
            no_answer_threshold=None if threshold is None else _validation.finite_number("no_answer_threshold", threshold),
            **{
                name: _validation.positive(name, getattr(self, name))
                for name in ("max_answer_tokens", "stride")
                if getattr(self, name) is not None
            },
        )


Objective = (
    MaskedLmLoss | ClozePrompts | MinimalPairs | LabelledTexts | LabelledWords | LabelledQuestions | Divergence | RatedTexts
)


@dataclass(frozen=True)
class Greedy:
    """Removes sets of heads one after another, and measures after each (Michel et al. 2019, figure 3)."""

    order: Order = "effect"
    """The next set to remove: "effect", the least harmful when changed alone; "importance", the one of the smallest gradient
    importance; "best_remaining", the least harmful on top of those already removed, n * (n + 1) / 2 evaluations."""
    step: int = 1
    """Number of sets removed between two points of the curve."""
    max_removed: int | None = None
    """Number of sets removed at the end; None means all of them."""
    metric: Metric | None = None
    """Metric of a set's harm; None means the objective's first metric."""

    def __post_init__(self) -> None:
        most = None if self.max_removed is None else _validation.positive("max_removed", self.max_removed)
        _keep(self, step=_validation.positive("step", self.step), max_removed=most)
        _validation.choice("order", self.order, dict.fromkeys(ORDERS))
        if self.metric is not None:
            _validation.choice("metric", self.metric, dict.fromkeys(METRICS))


def _keep(instance: object, **values: object) -> None:
    """Replaces the given values by the checked ones."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _prompt(field: str, value: object) -> tuple[str, tuple[str, ...]]:
    text, answers = _validation.pair(field, value, "(text, answers)")
    # `texts` raises an error for invalid answers of any type.
    return _validation.text(f"{field}.text", text), tuple(_validation.texts(f"{field}.answers", answers))  # type: ignore[arg-type]


def _minimal_pair(field: str, value: object) -> tuple[str, str]:
    good, bad = _validation.pair(field, value, "(good, bad)")
    return _validation.text(f"{field}.good", good), _validation.text(f"{field}.bad", bad)


def _question(field: str, value: object) -> tuple[str, str, tuple[tuple[int, int], ...]]:
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise invalid_argument(field, "must be a tuple (question, passage, answers)")
    question = _validation.text(f"{field}.question", value[0])
    passage = _validation.text(f"{field}.passage", value[1])
    given = value[2]
    # A tuple of two numbers is one answer; of two strings or two tuples, it is two.
    one = isinstance(given, str) or (isinstance(given, tuple) and any(hasattr(part, "__index__") for part in given))
    answers = [given] if one else _validation.many(f"{field}.answers", given, "answers")
    return question, passage, tuple(_gold(f"{field}.answers[{n}]", answer, passage) for n, answer in enumerate(answers))


def _gold(field: str, answer: object, passage: str) -> tuple[int, int]:
    if not isinstance(answer, str):
        start, end = _validation.pair(field, answer, "(start, end), or a string")
        return _validation.uint32(f"{field}.start", start), _validation.uint32(f"{field}.end", end)
    start = passage.find(_validation.text(field, answer))
    if start < 0 or not answer:
        raise invalid_argument(field, "does not occur in the passage; write it as the passage does, or give (start, end)")
    return start, start + len(answer)


def _labelled(field: str, value: object) -> tuple[TextOrPair, str | int]:
    text, label = _validation.pair(field, value, "(text, label)")
    return _validation.text_or_pair(f"{field}.input", text), _label(f"{field}.label", label)


def _labelled_words(field: str, value: object) -> _Words:
    if isinstance(value, _Words):
        return value
    text, labels = getattr(value, "text", None), getattr(value, "labels", None)
    if text is None or labels is None:
        raise invalid_argument(field, f"must be a ProbeText, not {type(value).__name__}")
    words = []
    for index, given in enumerate(_validation.many(f"{field}.labels", labels, "tuples")):
        place = f"{field}.labels[{index}]"
        if isinstance(given, tuple) and given[4:] == (None,):  # a ProbeText's label of a single word
            given = given[:4]
        name, *part = parts(place, given, (3, 4), WORD_PARTS)
        words.append((_validation.text(f"{place}.label", name), span(place, tuple(part))))
    return _Words(
        _validation.text_or_pair(field, text), tuple(sorted(words, key=lambda word: (word[1].segment, word[1].start)))
    )


def _rated(field: str, value: object) -> tuple[TextOrPair, float]:
    text, gold = _validation.pair(field, value, "(text, value)")
    return _validation.text_or_pair(f"{field}.input", text), _validation.finite_number(f"{field}.value", gold)


def _label(field: str, value: object) -> str | int:
    if isinstance(value, str):
        return _validation.text(field, value)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise invalid_argument(field, f"must be a label's name or its index, not {type(value).__name__}")
    return _validation.uint32(field, value)
