"""What objectives measure at masks, against plain transformers: its tokenizer, its model, one text at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.analyses.objectives.labelled import LabelledObjective, LabelledQuery, LabelledText
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.observers.predictions import GoldObserver
from bertscope_service.analyses.texts import words_of
from bertscope_service.encoders.edits import Edits
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray
from transformers import AutoTokenizer

from tests.support.plain import word_numbers
from tests.support.reference import Subject
from tests.support.runner import run_rows
from tests.support.tiny import SENTENCES

TEXTS = SENTENCES[:5] + SENTENCES[6:9]


class Plain:
    """A checkpoint as a reader of transformers' documentation would use it."""

    def __init__(self, subject: Subject) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(subject.folder)
        self.model = subject.reference.model

    def encode(self, text: str) -> tuple[list[int], list[Any]]:
        """Ids, and the word of each."""
        text = text.replace("[MASK]", self.tokenizer.mask_token)
        encoded = self.tokenizer(text, return_offsets_mapping=True)
        return list(encoded["input_ids"]), word_numbers(encoded, text)

    @torch.inference_mode()
    def logs(self, ids: Sequence[int]) -> torch.Tensor:
        """Logarithms of probabilities, float64 [length, vocabulary]."""
        logits: torch.Tensor = self.model(input_ids=torch.tensor([list(ids)])).logits[0]
        return logits.double().log_softmax(dim=-1)

    def masked(self, ids: Sequence[int], places: Sequence[int]) -> list[int]:
        return [self.tokenizer.mask_token_id if place in places else token for place, token in enumerate(ids)]


def build(subject: Subject, query: ObjectiveQuery) -> Objective:
    return build_objective(query, subject.tokenizer, subject.encoder, "models/m")


def see(subject: Subject, objective: Objective, observers: Sequence[Any], gates: Edits | None = None) -> list[Any]:
    return run_rows(subject.encoder, list(zip(objective.sequences, observers, strict=True)), gates)


def measure(subject: Subject, objective: Objective) -> NDArray[np.float64]:
    values = objective.measure(see(subject, objective, objective.observers))
    assert (values.dtype, values.shape) == (np.float64, (len(objective.metrics), objective.items))
    return values


def masks(texts: Sequence[str], seed: int = 0, share: float = 0.3, *, truncate: bool = False) -> MaskedLmQuery:
    return MaskedLmQuery(tuple(texts), seed, share, truncate)


def places_of(observer: Any) -> tuple[int, ...]:
    assert isinstance(observer, GoldObserver)
    return observer.positions


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 1.0])
def test_masked_lm_loss(subject: Subject, share: float) -> None:
    plain, objective = Plain(subject), build(subject, masks(TEXTS, share=share))
    (losses,) = measure(subject, objective)
    total, sizes = 0, set()
    for text, observer, loss in zip(TEXTS, objective.observers, losses, strict=True):
        ids, words = plain.encode(text)
        places = places_of(observer)
        chosen = {words[place] for place in places}
        # Whole words: every piece of a chosen word, and nothing of any other.
        assert sorted(places) == [place for place, word in enumerate(words) if word is not None and word in chosen]
        unknown = {words[place] for place, token in enumerate(ids) if token == plain.tokenizer.unk_token_id}
        assert not chosen & unknown
        count = len({word for word in words if word is not None} - unknown)
        assert len(chosen) == max(1, round(share * count))
        logs = plain.logs(plain.masked(ids, places))
        assert loss == pytest.approx(-np.mean([float(logs[place, ids[place]]) for place in places]), abs=1e-3)
        total, sizes = total + len(places), sizes | {sum(word == one for word in words) for one in chosen}
    assert objective.pieces == total
    assert (objective.metrics, len(objective.losses)) == ((Metric.LOSS,), len(TEXTS))
    assert share < 1 or max(sizes) > 2


def test_written_masks_and_blanks_are_never_chosen(subject: Subject) -> None:
    text = "The [MASK]  \t sat."
    objective = build(subject, masks([text], share=1.0))
    tokenized = subject.tokenizer.encode(text)
    places = places_of(objective.observers[0])
    covered = {character for place in places for character in range(*tokenized.span(place))}
    assert "".join(text[character] for character in sorted(covered)) == "Thesat."
    blank = [word for word in words_of(tokenized) if not any(np.ptp(tokenized.span(place)) for place in word)]
    assert not {place for word in blank for place in word} & set(places)


def test_labels_that_several_classes_or_none_have(subject: Subject) -> None:
    query = LabelledQuery((LabelledText("The cat sat.", None, "x"),), truncate=False)
    with pytest.raises(InvalidArgument) as caught:
        LabelledObjective(query, subject.tokenizer, ("x", "x"), "models/m")
    assert caught.value.reason == "LABEL_AMBIGUOUS"
    with pytest.raises(InvalidArgument, match="label is not one of the labels of models/m: a, b"):
        LabelledObjective(query, subject.tokenizer, ("a", "b"), "models/m")
