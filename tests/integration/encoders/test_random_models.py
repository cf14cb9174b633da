"""Models with random weights are what a checkpoint of the same weights is when it is loaded."""

from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.encoders.torch.random_models import random_encoder, random_model

from tests.support.rounding import BOTH_SIDES

CPU = torch.device("cpu")
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 120}
SHAPES: dict[str, dict[str, Any]] = {
    "bert": SIZES | {"hidden_size": 32, "intermediate_size": 48},
    "mobilebert": SIZES | {"hidden_size": 160, "intermediate_size": 48},
}


def logits(encoder: Encoder) -> torch.Tensor:
    rows = [TokenSequence(list(range(2, 2 + length)), [0] * length) for length in (9, 5)]
    with torch.inference_mode():
        state = encoder.begin(rows)
        encoder.advance(state, encoder.shape.layers)
        return encoder.logits(state, torch.tensor([0, 1]), torch.tensor([3, 4]))


@pytest.mark.parametrize("architecture", SHAPES)
def test_a_random_model_is_the_one_that_its_checkpoint_loads_as(architecture: str, tmp_path: Path) -> None:
    random_model(architecture, SHAPES[architecture]).save_pretrained(tmp_path)
    loaded = load_encoder(tmp_path, architecture, device=CPU, precision="fp32")
    made = random_encoder(architecture, SHAPES[architecture], device=CPU, precision="fp32")
    assert (made.shape, made.capabilities) == (loaded.shape, loaded.capabilities)
    expected = logits(loaded)
    assert torch.isfinite(expected).all() and expected.std() > 1e-3
    torch.testing.assert_close(logits(made), expected, rtol=0, atol=BOTH_SIDES)
    written = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    assert 0 < written - 4 * made.shape.parameters < 32 * 1024  # nothing but a header beside the weights


def test_other_precisions_take_the_same_weights() -> None:
    whole = logits(random_encoder("bert", SHAPES["bert"], device=CPU, precision="fp32"))
    half = random_encoder("bert", SHAPES["bert"], device=CPU, precision="bf16")
    assert half.precision == "bf16" and half.dtype is torch.bfloat16
    torch.testing.assert_close(logits(half), whole, rtol=0, atol=2e-2)
