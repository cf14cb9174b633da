"""The graph for other programs: transformers' names in, transformers' numbers out, by ONNX Runtime alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, KeepLayers, OnnxExport
from bertscope_service.compression.onnx.standard import STANDARD
from bertscope_service.encoders.onnx.sessions import adds_bytes_exactly
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from tests.support.compressed import make
from tests.support.tiny import SENTENCES, write_checkpoint

TEXTS = [SENTENCES[0], SENTENCES[1][: len(SENTENCES[1]) // 2]]
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "labels of texts": ("AutoModelForSequenceClassification", {"labels": 3}),
    "labels of tokens": ("AutoModelForTokenClassification", {"labels": 3, "task": "tokens"}),
    "answers": ("AutoModelForQuestionAnswering", {"labels": 2, "task": "answers"}),
    "none": ("AutoModel", {"head": False}),
}


def batch(folder: Path) -> transformers.BatchEncoding:
    """Two texts, one of them padded, as transformers' tokenizer gives them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer(TEXTS, padding=True, return_tensors="pt")


def outputs_of(folder: Path, given: transformers.BatchEncoding) -> dict[str, np.ndarray]:
    """What ONNX Runtime gives, of all inputs that the graph has."""
    session = onnxruntime.InferenceSession(folder / STANDARD, providers=["CPUExecutionProvider"])
    asked = {value.name for value in session.get_inputs()}
    assert {"input_ids", "attention_mask"} <= asked <= {"input_ids", "attention_mask", "token_type_ids"}
    feeds = {name: given[name].numpy() if name in given else np.zeros_like(given["input_ids"]) for name in asked}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def compare(found: np.ndarray, expected: torch.Tensor, mask: torch.Tensor) -> None:
    """At real tokens: what stands at padding is of no meaning."""
    assert found.shape == tuple(expected.shape)
    real = mask.bool().numpy() if found.ndim > 2 or found.shape == tuple(mask.shape) else np.ones(len(found), bool)
    np.testing.assert_allclose(found[real], expected.numpy()[real], rtol=0, atol=2e-5)


@torch.inference_mode()
def check(folder: Path, made: Path, kind: str) -> None:
    given = batch(folder)
    model = getattr(transformers, kind).from_pretrained(folder, output_hidden_states=True).eval()
    expected = model(**{name: given[name] for name in given if name != "token_type_ids" or model.config.type_vocab_size > 1})
    found = outputs_of(made, given)
    compare(found["last_hidden_state"], expected.hidden_states[-1], given["attention_mask"])
    for name in ("logits", "start_logits", "end_logits"):
        assert (name in found) == (name in expected)
        if name in found:
            compare(found[name], expected[name], given["attention_mask"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "albert", "distilbert", "modernbert"])
def test_every_architecture_gives_transformers_numbers(checkpoint: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    folder = checkpoint(name)
    check(folder, make(folder, tmp_path / "made", OnnxExport()), "AutoModelForMaskedLM")


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_every_head_gives_transformers_numbers(tmp_path: Path, head: str) -> None:
    kind, options = HEADS[head]
    folder = write_checkpoint("bert", tmp_path / "model", **options)
    check(folder, make(folder, tmp_path / "made", OnnxExport()), kind)


@pytest.mark.slow
@pytest.mark.skipif(
    not adds_bytes_exactly(), reason="plain ONNX Runtime adds products of bytes wrongly on this CPU: docs/elsewhere.md"
)
def test_graphs_of_fewer_layers_in_8_bits_give_what_the_server_gives(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    made = make(checkpoint("bert"), tmp_path / "made", KeepLayers((0, 2)), Int8(), OnnxExport())
    given = batch(checkpoint("bert"))
    (encoder,) = read_encoders(
        inspect(made), "", RuntimeRequest("onnx", "fp32", torch.device("cpu")), RuntimeSettings(tmp_path, threads=1)
    )
    (row,) = ([TokenSequence(given["input_ids"][0].tolist(), given["token_type_ids"][0].tolist())],)
    state = encoder.begin(row)
    places = torch.arange(len(row[0].ids))
    encoder.advance(state, encoder.shape.layers, only=places[None])
    served = encoder.logits(state, torch.zeros_like(places), places)
    found = outputs_of(made, given)["logits"][0]
    np.testing.assert_allclose(
        found, served.numpy(), rtol=0, atol=1e-5
    )  # each token has a scale of its own, whatever the batch
