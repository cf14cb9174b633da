"""Tells which head a checkpoint has: its config names transformers' class, whose name ends with the kind of head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

REGRESSION, MULTI_LABEL = "regression", "multi_label_classification"
"""Values of `problem_type` in config.json."""


class Head(StrEnum):
    """The head of a model, by the suffix of its class in `architectures` of config.json."""

    MASKED_LM = "ForMaskedLM"
    SEQUENCE = "ForSequenceClassification"
    TOKENS = "ForTokenClassification"
    ANSWERS = "ForQuestionAnswering"

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of transformers' classes with this head; XLM and FlauBERT have names of their own."""
        return (*OTHER_SUFFIXES.get(self, ()), self.value)

    @property
    def names_labels(self) -> bool:
        """True if `id2label` names its outputs."""
        return self in (Head.SEQUENCE, Head.TOKENS)


OTHER_SUFFIXES: Mapping[Head, tuple[str, ...]] = {
    Head.MASKED_LM: ("WithLMHeadModel",),
    Head.ANSWERS: ("ForQuestionAnsweringSimple",),
}


def head_of(config: Any) -> Head:
    """Returns the head that a config names; the masked-LM head if it names none that is known, which may then be missing."""
    return named_head(config.architectures or ())


def named_head(architectures: Iterable[object]) -> Head:
    """Does the same as `head_of` for the names of transformers' classes in `architectures`."""
    written = [str(name) for name in architectures]
    return next((head for head in Head if any(name.endswith(head.suffixes) for name in written)), Head.MASKED_LM)


def head_of_model(model: Any) -> Head:
    """Returns the head of a transformers model."""
    return next((head for head in Head if type(model).__name__.endswith(head.suffixes)), Head.MASKED_LM)


def regresses(config: Any) -> bool:
    """Checks that a sequence head gives one value, not scores of labels."""
    one = config.num_labels == 1 and config.problem_type is None
    return head_of(config) is Head.SEQUENCE and (one or config.problem_type == REGRESSION)


def chooses_several(config: Any) -> bool:
    """Checks that any number of a sequence head's labels may hold for a text."""
    return head_of(config) is Head.SEQUENCE and config.problem_type == MULTI_LABEL


def labels_of(config: Any) -> tuple[str, ...]:
    """Returns the names of a head's labels, in order; empty for a head that has none, such as that of a regression."""
    if not head_of(config).names_labels or regresses(config):
        return ()
    return tuple(str(config.id2label.get(number, f"LABEL_{number}")) for number in range(config.num_labels))
