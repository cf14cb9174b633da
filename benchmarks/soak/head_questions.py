"""Questions of the soak to models with a head over labels, values or answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
from transformers import BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification

from benchmarks.lib.texts import texts_of_lengths, write_small_bert
from benchmarks.soak.asking import Answer, Ask, Caller, Role


async def classify(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls Classify."""
    found = await caller.client.classify(texts_of_lengths([6, 9, 14], mask=False), model=model, timeout=seconds)
    scores = [np.array([label.logit for label in sorted(text.labels, key=lambda label: label.index)]) for text in found]
    return Answer(found[0].provenance.weights_digest, arrays=scores)


async def classify_tokens(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ClassifyTokens."""
    found = await caller.client.classify_tokens(texts_of_lengths([6, 9, 14], mask=False), model=model, timeout=seconds)
    scores = [np.array([word.labels[0].logit for word in text.words]) for text in found]
    return Answer(found[0].provenance.weights_digest, arrays=scores)


async def predict_values(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls PredictValues."""
    found = await caller.client.predict_values(texts_of_lengths([6, 9, 14], mask=False), model=model, timeout=seconds)
    return Answer(found[0].provenance.weights_digest, arrays=[np.array([text.value for text in found])])


async def answer_questions(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls AnswerQuestions, of a passage that is read in one window and of one that is read in several."""
    asked = [("where is it", passage) for passage in texts_of_lengths([14, 700], mask=False)]
    found = await caller.client.answer_questions(asked, model=model, timeout=seconds)
    scores = [np.array([one.no_answer_score, *(span.score for span in one.spans)]) for one in found]
    return Answer(found[0].provenance.weights_digest, arrays=scores)


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
    "Classify": (Role.CLASSIFIER, classify),
    "ClassifyTokens": (Role.TAGGER, classify_tokens),
    "PredictValues": (Role.RATER, predict_values),
    "AnswerQuestions": (Role.ANSWERER, answer_questions),
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
