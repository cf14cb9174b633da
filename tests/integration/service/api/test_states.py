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
from bertscope.v1 import representation_states_pb2 as states
from bertscope_service.checkpoints.steps import EliminateTokens
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from tests.support.compressed import made
from tests.support.harness import CALL_SECONDS, Host, Maps, read_maps, refused
from tests.support.rounding import BOTH_SIDES
from tests.support.sweeps import text_input

Intervention = common_pb2.HeadIntervention
CLOSE = BOTH_SIDES
TEXTS = ("The cat sat.", "The nurse told the doctor that her patient had been waiting since 7:45 a.m.", "The café in Zürich.")
PAIR = ("The unhappy player sat.", "The children replayed the song, unrecognizably.")


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reference(model: str, checkpoints: dict[str, Path]) -> Callable[..., NDArray[Any]]:
    tokenizer, network = AutoTokenizer.from_pretrained(checkpoints[model]), AutoModel.from_pretrained(checkpoints[model]).eval()

    @torch.no_grad()
    def hidden(*texts: str) -> NDArray[Any]:
        """[layers, tokens, hidden_size]"""
        return torch.cat(network(**tokenizer(*texts, return_tensors="pt"), output_hidden_states=True).hidden_states).numpy()

    return hidden


def inputs(texts: Sequence[str | tuple[str, str]]) -> list[common_pb2.TextInput]:
    return [text_input(text) if isinstance(text, str) else text_input(*text) for text in texts]


def extract(host: Host, model: str, texts: Sequence[str | tuple[str, str]], **fields: Any) -> list[Maps]:
    request = states.ExtractHiddenStatesRequest(model=f"models/{model}", inputs=inputs(texts), **fields)
    return read_maps(host.representation.ExtractHiddenStates(request, timeout=CALL_SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("step_bytes", [1, 1 << 24])
def test_states_of_many_texts(
    host: Host, model: str, reference: Callable[..., NDArray[Any]], monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    monkeypatch.setattr("bertscope_service.api.tensor_chunks.CHUNK_BYTES", 1000)
    monkeypatch.setattr(bertscope_service.analyses.layer_steps, "STEP_BYTES", step_bytes)
    found = extract(host, model, [*TEXTS, PAIR], layers=[4, 0, 2])
    assert len(found) == 4
    for text, texts in zip(found, [(text,) for text in TEXTS] + [PAIR], strict=True):
        expected = reference(*texts)
        assert list(text.header.layers) == [4, 0, 2]
        np.testing.assert_allclose(text.values, expected[[4, 0, 2]], atol=CLOSE)
        assert len(text.header.tokens) == expected.shape[1]
        assert text.header.provenance.model == f"models/{model}"


def test_all_layers_are_the_embeddings_and_every_layer(host: Host, model: str, reference: Callable[..., NDArray[Any]]) -> None:
    (text,) = extract(host, model, TEXTS[:1], dtype=common_pb2.DATA_TYPE_FLOAT16)
    assert list(text.header.layers) == [0, 1, 2, 3, 4]
    assert text.values.dtype == np.float16
    np.testing.assert_allclose(text.values, reference(TEXTS[0]), atol=5e-3)


def test_interventions_change_the_states_above_them(host: Host, model: str, reference: Callable[..., NDArray[Any]]) -> None:
    plain = reference(TEXTS[1])
    (text,) = extract(host, model, TEXTS[1:2], interventions=[Intervention(layer=2, heads=[0], mode=Intervention.MODE_ZERO)])
    np.testing.assert_allclose(text.values[:3], plain[:3], atol=CLOSE)
    assert np.abs(text.values[3:] - plain[3:]).max() > 1e-3


def test_a_long_text_is_cut_only_when_asked(host: Host, model: str) -> None:
    text, short = extract(host, model, ["the cat " * 60, TEXTS[0]], truncate=True, layers=[0])
    assert text.values.shape[1] == 64
    assert text.header.truncated_tokens > 50
    assert short.header.truncated_tokens == 0


def test_states_beyond_float16_are_an_error(launch: Callable[..., Host], tmp_path: Path, checkpoints: dict[str, Path]) -> None:
    network = AutoModel.from_pretrained(checkpoints["bert"])
    with torch.no_grad():
        network.encoder.layer[3].output.LayerNorm.weight.mul_(1e6)
    network.save_pretrained(tmp_path / "large")
    AutoTokenizer.from_pretrained(checkpoints["bert"]).save_pretrained(tmp_path / "large")
    host = launch(model=[f"large={tmp_path / 'large'}"])
    (text,) = extract(host, "large", TEXTS[:1])
    assert np.abs(text.values).max() > 1e5
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
        extract(host, "large", TEXTS[:1], dtype=common_pb2.DATA_TYPE_FLOAT16)
    assert failures[0].info.reason == "STATES_NOT_FINITE"


def test_a_model_that_drops_tokens(launch: Callable[..., Host], tmp_path: Path, checkpoints: dict[str, Path]) -> None:
    host = launch(model=[f"short={made(checkpoints['bert'], tmp_path / 'short', EliminateTokens((1.0, 0.8, 0.6, 0.5)))}"])
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        extract(host, "short", TEXTS)
    assert failures[0].info.reason == "NO_STATES"
