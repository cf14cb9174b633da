"""What models must have for an objective; models without a head are in tests/samples/."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.api.requirements import require_objective
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.errors import Unsupported


def test_a_loss_needs_a_mask() -> None:
    encoder = SimpleNamespace(shape=Shape("bert", 3, 2, 8, 100, 16, 1000), capabilities=Capabilities(masked_lm=True))
    model: Any = SimpleNamespace(name="models/m", encoder=encoder, tokenizer=SimpleNamespace(mask_id=None))
    with pytest.raises(Unsupported, match="models/m") as caught:
        require_objective(model, MaskedLmQuery(("a",), 0, 0.15, truncate=False))
    assert caught.value.reason == "NO_MASK_TOKEN"
