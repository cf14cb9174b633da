"""Classify through gRPC gives what transformers gives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification

from tests.support.calls import call, refusal
from tests.support.harness import Host, LoopThread, launched
from tests.support.plain import Plain
from tests.support.sweeps import text_input
from tests.support.tiny import ARCHITECTURES, LABELS, SENTENCES, write_checkpoint

INPUTS = (
    *((text, None) for text in SENTENCES),
    ("Is it raining?", "It isn't raining, and it wasn't raining when they left the city."),
    ("The cat sat.", "The cat sat."),
    ("a", None),
)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of an architecture, of three labels."""
    return write_checkpoint(name, tmp_path_factory.mktemp("classifiers") / name, labels=3)


@pytest.fixture(scope="module")
def zoo(loop: LoopThread, name: str, folder: Path) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}"]) as running:
        yield running


@pytest.fixture(scope="module")
def plain(folder: Path) -> Plain:
    return Plain(folder, AutoModelForSequenceClassification)


def classify(host: Host, inputs: Any, **fields: Any) -> Any:
    return call(host, "Classify", inputs=[text_input(text, pair) for text, pair in inputs], **fields)


def logits_of(results: Any) -> NDArray[np.float64]:
    return np.array([[label.logit for label in sorted(result.labels, key=lambda label: label.index)] for result in results])


@pytest.mark.slow
def test_texts_and_pairs_of_mixed_length_together_and_alone(zoo: Host, name: str, plain: Plain) -> None:
    logits = np.stack([plain.logits(*given) for given in INPUTS])
    reply = classify(zoo, INPUTS)
    assert reply.provenance.model == f"models/{name}"
    assert reply.provenance.weights_digest.startswith("sha256:")
    np.testing.assert_allclose(logits_of(reply.results), logits, atol=2e-5)
    np.testing.assert_allclose(logits_of([classify(zoo, [one]).results[0] for one in INPUTS]), logits, atol=2e-5)
    probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    for result, expected in zip(reply.results, probabilities, strict=True):
        assert [label.index for label in result.labels] == np.argsort(-expected).tolist()
        assert [label.label for label in result.labels] == [LABELS[label.index] for label in result.labels]
        np.testing.assert_allclose([label.probability for label in result.labels], sorted(expected)[::-1], atol=1e-5)
        assert sum(label.probability for label in result.labels) == pytest.approx(1)
        assert result.truncated_tokens == 0
    assert np.ptp(logits, axis=0).max() > 0.1


@pytest.mark.slow
def test_a_long_text_is_cut_only_when_asked(zoo: Host, plain: Plain) -> None:
    text = " ".join(SENTENCES)
    (found,) = classify(zoo, [(text, None)], truncate=True).results
    cut = plain.model(**plain.encode(text, truncation=True, max_length=64)).logits
    np.testing.assert_allclose(logits_of([found]), cut.detach().numpy(), atol=2e-5)
    assert found.tokens == 64
    assert found.tokens + found.truncated_tokens == len(plain.tokenizer(text)["input_ids"])
    failure = refusal(zoo, "Classify", inputs=[text_input("a"), text_input(text)])
    assert failure.fields == ["inputs[1]"]
    assert "truncate" in failure.message


@pytest.mark.parametrize("name", ["bert"], indirect=True)
def test_a_text_without_a_token_is_refused(zoo: Host) -> None:
    failure = refusal(zoo, "Classify", inputs=[text_input("a"), text_input("\u200b")])
    assert (failure.fields, failure.info.reason) == (["inputs[1].text"], "EMPTY_TEXT")
