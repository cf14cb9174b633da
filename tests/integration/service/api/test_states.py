"""ExtractHiddenStates through gRPC: what transformers gives, in chunks that cover each tensor exactly once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bertscope_service.analyses.layer_steps
import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import common_pb2
from bertscope_service.checkpoints.steps import EliminateTokens
from numpy.typing import NDArray

from tests.support.calls import call, refusal
from tests.support.compressed import made
from tests.support.harness import Host, Maps, read_maps
from tests.support.plain import Plain
from tests.support.rounding import BOTH_SIDES
from tests.support.sweeps import text_input

CLOSE = BOTH_SIDES
TEXTS = (
    ("The cat sat.",),
    ("The nurse told the doctor that her patient had been waiting since 7:45 a.m.",),
    ("The unhappy player sat.", "The children replayed the song, unrecognizably."),
)
HALF = common_pb2.DATA_TYPE_FLOAT16


def states_of(plain: Plain, *texts: str) -> NDArray[Any]:
    """[layers, tokens, hidden_size]"""
    return torch.cat(plain.run(*texts, output_hidden_states=True).hidden_states).numpy()  # type: ignore[no-any-return]


def extract(host: Host, model: str, texts: Sequence[tuple[str, ...]], **fields: Any) -> list[Maps]:
    inputs = [text_input(*text) for text in texts]
    return read_maps(call(host, "ExtractHiddenStates", model=f"models/{model}", inputs=inputs, **fields))


@pytest.mark.slow
@pytest.mark.parametrize("step_bytes", [1, 1 << 24])
def test_states_of_many_texts(host: Host, model: str, plain: Plain, monkeypatch: pytest.MonkeyPatch, step_bytes: int) -> None:
    monkeypatch.setattr("bertscope_service.api.tensor_chunks.CHUNK_BYTES", 1000)
    monkeypatch.setattr(bertscope_service.analyses.layer_steps, "STEP_BYTES", step_bytes)
    for text, texts in zip(extract(host, model, TEXTS, layers=[4, 0, 2]), TEXTS, strict=True):
        expected = states_of(plain, *texts)
        assert list(text.header.layers) == [4, 0, 2]
        np.testing.assert_allclose(text.values, expected[[4, 0, 2]], atol=CLOSE)
        assert len(text.header.tokens) == expected.shape[1]
        assert text.header.provenance.model == f"models/{model}"


def test_all_layers_are_the_embeddings_and_every_layer(host: Host, model: str, plain: Plain) -> None:
    (text,) = extract(host, model, TEXTS[:1], dtype=HALF)
    assert list(text.header.layers) == [0, 1, 2, 3, 4]
    assert text.values.dtype == np.float16
    np.testing.assert_allclose(text.values, states_of(plain, *TEXTS[0]), atol=5e-3)


def test_interventions_change_the_states_above_them(host: Host, model: str, plain: Plain) -> None:
    expected = states_of(plain, *TEXTS[1])
    (text,) = extract(host, model, TEXTS[1:2], interventions=[{"layer": 2, "heads": [0], "mode": "MODE_ZERO"}])
    np.testing.assert_allclose(text.values[:3], expected[:3], atol=CLOSE)
    assert np.abs(text.values[3:] - expected[3:]).max() > 1e-3


def test_a_long_text_is_cut_only_when_asked(host: Host, model: str) -> None:
    text, short = extract(host, model, [("the cat " * 60,), TEXTS[0]], truncate=True, layers=[0])
    assert text.values.shape[1] == 64
    assert text.header.truncated_tokens > 50
    assert short.header.truncated_tokens == 0


def test_what_a_model_can_not_give(launch: Callable[..., Host], tmp_path: Path, checkpoints: dict[str, Path]) -> None:
    """States beyond float16, and those of tokens that it drops."""
    large = Plain(checkpoints["bert"])
    with torch.no_grad():
        large.model.encoder.layer[3].output.LayerNorm.weight.mul_(1e6)
    large.model.save_pretrained(tmp_path / "large")
    large.tokenizer.save_pretrained(tmp_path / "large")
    made(checkpoints["bert"], tmp_path / "short", EliminateTokens((1.0, 0.8, 0.6, 0.5)))
    host = launch(model=[f"{name}={tmp_path / name}" for name in ("large", "short")])
    (text,) = extract(host, "large", TEXTS[:1])
    assert np.abs(text.values).max() > 1e5
    inputs, failed = [text_input(*TEXTS[0])], grpc.StatusCode.FAILED_PRECONDITION
    failure = refusal(host, "ExtractHiddenStates", code=failed, model="models/large", inputs=inputs, dtype=HALF)
    assert failure.info.reason == "STATES_NOT_FINITE"
    failure = refusal(host, "ExtractHiddenStates", code=grpc.StatusCode.UNIMPLEMENTED, model="models/short", inputs=inputs)
    assert failure.info.reason == "NO_STATES"
