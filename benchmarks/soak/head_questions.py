"""Questions of the soak to models with a head over labels, values or answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bertscope
from transformers import BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification

from benchmarks.lib.texts import texts_of_lengths, write_small_bert
from benchmarks.soak.asking import Answer, Ask, Caller, Role


@dataclass(frozen=True, slots=True)
class Explain:
    """Calls AttributeWords about the number of a head, by occlusion."""

    target: Any
    texts: Sequence[str | tuple[str, str]]

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        found = await caller.client.attribute_words(self.texts, self.target, model=model, method="occlusion", timeout=seconds)
        return Answer(found[0].provenance.weights_digest, arrays=[one.values for one in found])


PLAIN = texts_of_lengths([6, 14], mask=False)
HEADS: dict[str, tuple[Role, Ask]] = {
    "AttributeWords, label": (Role.CLASSIFIER, Explain(bertscope.TextLabel(), PLAIN)),
    "AttributeWords, word's label": (Role.TAGGER, Explain(bertscope.WordLabel((0, 1)), PLAIN)),
    "AttributeWords, value": (Role.RATER, Explain(bertscope.TextValue(), PLAIN)),
    "AttributeWords, answer": (
        Role.ANSWERER,
        Explain(bertscope.PassageAnswer((0, 1)), [("where is it", text) for text in PLAIN]),
    ),
}

MODELS: dict[Role, tuple[Any, int]] = {
    Role.CLASSIFIER: (BertForSequenceClassification, 3),
    Role.TAGGER: (BertForTokenClassification, 3),
    Role.RATER: (BertForSequenceClassification, 1),
    Role.ANSWERER: (BertForQuestionAnswering, 2),
}
"""The class of each model, and the number of its labels."""


def write_heads(root: Path, *, seed: int) -> dict[str, Path]:
    """Writes the checkpoints of these models. Returns their folders by name."""
    return {
        role.value: write_small_bert(root / role.value, seed=seed, kind=kind, labels=labels)
        for role, (kind, labels) in MODELS.items()
    }
