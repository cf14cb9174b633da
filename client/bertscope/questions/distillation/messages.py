"""Builds the texts of DistillModel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from bertscope.questions.ablation.requests import labelled_text
from bertscope.questions.ablation.task_objectives import LabelledTexts
from bertscope.v1 import distillation_pb2
from bertscope.values import validation
from bertscope.values.messages import text_input
from bertscope.values.validation import TextOrPair

Texts: TypeAlias = TextOrPair | Iterable[TextOrPair]


def text_messages(name: str, given: Texts | LabelledTexts) -> list[distillation_pb2.DistillationText]:
    """Returns the messages of texts, with labels if they have any."""
    if isinstance(given, LabelledTexts):
        return [labelled_text(distillation_pb2.DistillationText, text, label) for text, label in given.texts]
    return [distillation_pb2.DistillationText(input=text_input(text)) for text in validation.texts_or_pairs(name, given)]
