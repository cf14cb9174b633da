"""Classify through gRPC gives what transformers gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import classification_pb2 as classification
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.sweeps import text_input
from tests.support.tiny import ARCHITECTURES, LABELS, SENTENCES, write_checkpoint

INPUTS = (
    *((text, None) for text in SENTENCES),
    ("Is it raining?", "It isn't raining, and it wasn't raining when they left the city."),
    ("The cat sat.", "The cat sat."),
    ("a", None),
)


@pytest.fixture(scope="module")
def folders(name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A classifier of an architecture, of three labels."""
    return {name: write_checkpoint(name, tmp_path_factory.mktemp("classifiers") / name, labels=3)}


@pytest.fixture(scope="module")
def zoo(loop: LoopThread, name: str, folders: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folders[name]}"]) as running:
        yield running


@pytest.fixture(scope="module", params=ARCHITECTURES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def logits(name: str, folders: dict[str, Path]) -> NDArray[np.float64]:
    """transformers' own, one input at a time [inputs, labels]."""
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    reference = AutoModelForSequenceClassification.from_pretrained(folders[name], attn_implementation="eager").eval()
    with torch.no_grad():
        found = [reference(**tokenizer(text, pair, return_tensors="pt")).logits[0] for text, pair in INPUTS]
    return torch.stack(found).double().numpy()


def classify(host: Host, name: str, inputs: Any, **fields: Any) -> list[classification.ClassifiedText]:
    request = classification.ClassifyRequest(
        model=f"models/{name}", inputs=[text_input(text, pair) for text, pair in inputs], **fields
    )
    reply = host.classification.Classify(request, timeout=CALL_SECONDS)
    assert reply.provenance.model == f"models/{name}"
    assert reply.provenance.weights_digest.startswith("sha256:")
    assert len(reply.results) == len(inputs)
    return list(reply.results)


def logits_of(results: list[classification.ClassifiedText]) -> NDArray[np.float64]:
    return np.array([[label.logit for label in sorted(result.labels, key=lambda label: label.index)] for result in results])


@pytest.mark.slow
def test_texts_and_pairs_of_mixed_length_together_and_alone(zoo: Host, name: str, logits: NDArray[np.float64]) -> None:
    together = classify(zoo, name, INPUTS)
    np.testing.assert_allclose(logits_of(together), logits, atol=2e-5)
    alone = [classify(zoo, name, [one])[0] for one in INPUTS]
    np.testing.assert_allclose(logits_of(alone), logits, atol=2e-5)
    probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    for result, expected in zip(together, probabilities, strict=True):
        assert [label.index for label in result.labels] == np.argsort(-expected).tolist()
        assert [label.label for label in result.labels] == [LABELS[label.index] for label in result.labels]
        np.testing.assert_allclose([label.probability for label in result.labels], sorted(expected)[::-1], atol=1e-5)
        assert sum(label.probability for label in result.labels) == pytest.approx(1)
        assert result.truncated_tokens == 0
    assert np.ptp(logits, axis=0).max() > 0.1


@pytest.mark.slow
def test_a_long_text_is_cut_only_when_asked(zoo: Host, name: str, folders: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    text = " ".join(SENTENCES)
    reference = AutoModelForSequenceClassification.from_pretrained(folders[name], attn_implementation="eager").eval()
    with torch.no_grad():
        expected = reference(**tokenizer(text, truncation=True, max_length=64, return_tensors="pt")).logits
    (found,) = classify(zoo, name, [(text, None)], truncate=True)
    np.testing.assert_allclose(logits_of([found]), expected.double().numpy(), atol=2e-5)
    assert found.tokens == 64
    assert found.tokens + found.truncated_tokens == len(tokenizer(text)["input_ids"])
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        classify(zoo, name, [("a", None), (text, None)])
    assert failures[0].fields == ["inputs[1]"]
    assert "truncate" in failures[0].message
