"""Defines the objectives of sweeps and rankings, but for those of fine-tuned models, and the curve of removals.

An objective stores its arguments as tuples, so that it may be used for any number of calls. Making one raises
InvalidArgument, naming the field, for arguments of the wrong type; the server checks their number (1 to 10,000 items).
`truncate` cuts texts that the model cannot read whole; without it they are an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from bertscope.questions.ablation.task_objectives import (
    LabelledQuestions,
    LabelledTexts,
    LabelledWords,
    LabelSets,
    RatedTexts,
    SimilarTexts,
)
from bertscope.values import validation
from bertscope.values.choices import Metric, Order, Scoring
from bertscope.values.validation import TextOrPair

__all__ = ["ClozePrompts", "Divergence", "Greedy", "MaskedLmLoss", "MinimalPairs"]

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
        share = None if self.mask_share is None else validation.finite_number("mask_share", self.mask_share)
        validation.keep(
            self,
            texts=tuple(validation.texts("texts", self.texts)),
            seed=validation.uint64("seed", self.seed),
            mask_share=share,
        )
        validation.flag("truncate", self.truncate)


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
        validation.keep(self, prompts=validation.each("prompts", self.prompts, "tuples (text, answers)", _prompt))
        validation.flag("skip_multi_piece", self.skip_multi_piece)
        validation.flag("truncate", self.truncate)


@dataclass(frozen=True)
class MinimalPairs:
    """Share of pairs whose better sentence gets the higher pseudo-log-likelihood: "accuracy"; and by how many nats it is
    higher: "score_difference". Needs a masked-LM head."""

    pairs: Iterable[tuple[str, str]]
    """(the better sentence, the worse one)."""
    scoring: Scoring = "within_word"
    """"within_word" masks the later pieces of a word along with each piece (Kauf and Ivanova 2023), "original" the
    piece alone (Salazar et al. 2020), "whole_word" all pieces of the word."""
    truncate: bool = False

    def __post_init__(self) -> None:
        validation.keep(self, pairs=validation.each("pairs", self.pairs, "tuples (good, bad)", _minimal_pair))
        validation.choice("scoring", self.scoring, dict.fromkeys(SCORINGS))
        validation.flag("truncate", self.truncate)


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
        validation.keep(self, inputs=validation.texts_or_pairs("inputs", self.inputs))
        validation.flag("truncate", self.truncate)


Objective = (
    MaskedLmLoss
    | ClozePrompts
    | MinimalPairs
    | LabelledTexts
    | LabelledWords
    | LabelledQuestions
    | Divergence
    | RatedTexts
    | SimilarTexts
    | LabelSets
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
        most = None if self.max_removed is None else validation.positive("max_removed", self.max_removed)
        validation.keep(self, step=validation.positive("step", self.step), max_removed=most)
        validation.choice("order", self.order, dict.fromkeys(ORDERS))
        if self.metric is not None:
            validation.choice("metric", self.metric, dict.fromkeys(METRICS))


def _prompt(field: str, value: object) -> tuple[str, tuple[str, ...]]:
    text, answers = validation.pair(field, value, "(text, answers)")
    # `texts` raises an error for invalid answers of any type.
    return validation.text(f"{field}.text", text), tuple(validation.texts(f"{field}.answers", answers))  # type: ignore[arg-type]


def _minimal_pair(field: str, value: object) -> tuple[str, str]:
    good, bad = validation.pair(field, value, "(good, bad)")
    return validation.text(f"{field}.good", good), validation.text(f"{field}.bad", bad)
