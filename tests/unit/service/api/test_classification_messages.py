"""What models must have, and requests and replies of ClassificationService."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.labelled import LabelledQuery, LabelledText
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsQuery
from bertscope_service.api.requirements import require_objective
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.errors import Unsupported

LOSS = MaskedLmQuery(("a",), 0, 0.15, truncate=False)
PAIRS = MinimalPairsQuery((("a", "b"),), Scoring.WITHIN_WORD, truncate=False)


def with_shape(**changes: Any) -> Any:
    fields = {"masked_lm": True, "labels": (), "mask_id": 4} | changes
    capabilities = Capabilities(masked_lm=fields["masked_lm"], classification=bool(fields["labels"]))
    encoder = SimpleNamespace(shape=Shape("bert", 3, 2, 8, 100, 16, 1000, fields["labels"]), capabilities=capabilities)
    tokenizer = SimpleNamespace(mask_id=fields["mask_id"])
    return SimpleNamespace(name="models/m", encoder=encoder, tokenizer=tokenizer)


HEADLESS, CLASSIFIER = {"masked_lm": False}, {"masked_lm": False, "labels": ("a", "b")}
DIVERGENCE = DivergenceQuery((("a", None),), truncate=False)
LABELLED = LabelledQuery((LabelledText("a", None, 0),), truncate=False)


@pytest.mark.parametrize(
    ("changes", "query", "reason"),
    [
        (HEADLESS, LOSS, "NO_MASKED_LM_HEAD"),
        (CLASSIFIER, PAIRS, "NO_MASKED_LM_HEAD"),
        (CLASSIFIER, ClozePromptsQuery((), skip_multi_piece=False, truncate=False), "NO_MASKED_LM_HEAD"),
        ({"mask_id": None}, LOSS, "NO_MASK_TOKEN"),
        ({}, LABELLED, "NO_CLASSIFICATION_HEAD"),
        (HEADLESS, DIVERGENCE, "NO_MASKED_LM_HEAD"),
    ],
)
def test_models_without_what_an_objective_needs(changes: dict[str, Any], query: Any, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        require_objective(with_shape(**changes), query)
    assert caught.value.reason == reason
    assert "models/m" in caught.value.message
