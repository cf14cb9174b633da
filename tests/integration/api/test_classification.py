"""Classify through gRPC gives what transformers gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.sweeps import MEAN, REFERENCES, SCALE, UNIFORM, ZERO, Measurer, text_input
from tests.support.tiny import ARCHITECTURES, LABELS, SENTENCES, write_checkpoint

Intervention = common.HeadIntervention
INPUTS = (
    *((text, None) for text in SENTENCES),
    ("Is it raining?", "It isn't raining, and it wasn't raining when they left the city."),
    ("The cat sat.", "The cat sat."),
    ("a", None),
)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Here, transformers runs beside the server."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A classifier of every architecture, of three labels."""
    root = tmp_path_factory.mktemp("classifiers")
    return {name: write_checkpoint(name, root / name, labels=3) for name in ARCHITECTURES}


@pytest.fixture(scope="module")
def zoo(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as running:
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


def test_tokens_are_those_the_model_read(zoo: Host, name: str, folders: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    counted = [result.tokens for result in classify(zoo, name, INPUTS)]
    assert counted == [len(tokenizer(text, pair)["input_ids"]) for text, pair in INPUTS]


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


def test_interventions_scaled_by_one_change_nothing_and_others_do(zoo: Host, name: str, logits: NDArray[np.float64]) -> None:
    def change(**fields: Any) -> list[Intervention]:
        return [Intervention(layer=layer, **fields) for layer in (0, 2)]

    nothing = classify(zoo, name, INPUTS, interventions=change(mode=SCALE, scale=1.0))
    np.testing.assert_allclose(logits_of(nothing), logits, atol=2e-5)
    seen = [logits]
    for fields in ({"mode": ZERO}, {"mode": UNIFORM}, {"mode": SCALE, "scale": 0.5}, {"mode": MEAN}):
        texts = {"reference_texts": REFERENCES} if fields["mode"] == MEAN else {}
        found = logits_of(classify(zoo, name, INPUTS, interventions=change(**fields), **texts))
        alone = [logits_of(classify(zoo, name, [one], interventions=change(**fields), **texts))[0] for one in INPUTS[::4]]
        np.testing.assert_allclose(found[::4], alone, atol=2e-5)
        assert all(abs(found - other).max() > 1e-3 for other in seen)
        seen.append(found)


def test_zeroed_heads_are_weights_without_them(zoo: Host, folders: dict[str, Path]) -> None:
    """What transformers gives when the columns of the output projection that read the head are zero."""
    reference = AutoModelForSequenceClassification.from_pretrained(folders["bert"], attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folders["bert"])
    with torch.no_grad():
        reference.bert.encoder.layer[1].attention.output.dense.weight[:, 8:16] = 0
        expected = [reference(**tokenizer(text, pair, return_tensors="pt")).logits[0] for text, pair in INPUTS]
    found = classify(zoo, "bert", INPUTS, interventions=[Intervention(layer=1, heads=[1], mode=ZERO)])
    np.testing.assert_allclose(logits_of(found), torch.stack(expected).double().numpy(), atol=2e-5)


def test_a_model_says_its_labels_and_what_it_can(zoo: Host, lab: Host, name: str) -> None:
    found = zoo.models.GetModel(model.GetModelRequest(name=f"models/{name}"), timeout=CALL_SECONDS).model
    assert found.architecture == name
    assert list(found.labels) == list(LABELS[:3])
    everything = {model.CAPABILITY_ATTENTION, model.CAPABILITY_INTERVENTIONS, model.CAPABILITY_CLASSIFICATION}
    everything |= {model.CAPABILITY_HIDDEN_STATES}
    everything |= {model.CAPABILITY_RANKING} | ({model.CAPABILITY_PRUNING} if name != "albert" else set())
    assert set(found.capabilities) == everything
    masked_lm = lab.models.GetModel(model.GetModelRequest(name="models/bert"), timeout=CALL_SECONDS).model
    assert not masked_lm.labels
    assert model.CAPABILITY_CLASSIFICATION not in masked_lm.capabilities


def test_a_classifier_shows_its_attention(zoo: Host, name: str) -> None:
    request = attention.ExtractAttentionRequest(model=f"models/{name}", inputs=[text_input("The cat sat.")])
    assert list(zoo.attention.ExtractAttention(request, timeout=CALL_SECONDS))


@pytest.mark.parametrize("name", ["bert", "roberta", "headless"])
def test_a_model_without_labels_refuses_by_name(lab: Host, name: str) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        classify(lab, name, [("The cat sat.", None)])
    assert failures[0].info.reason == "NO_CLASSIFICATION_HEAD"
    assert f"models/{name} has no classification head" in failures[0].message
    assert failures[0].info.metadata["model"] == f"models/{name}"


@pytest.mark.parametrize("name", ["sorter", "distilled"])
def test_a_classifier_fills_no_masks(lab: Host, name: str) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        lab.cloze.FillMask(cloze.FillMaskRequest(model=f"models/{name}", texts=["The [MASK] sat."]), timeout=CALL_SECONDS)
    assert failures[0].info.reason == "NO_MASKED_LM_HEAD"


def test_no_model_means_the_first_one(zoo: Host) -> None:
    request = classification.ClassifyRequest(inputs=[text_input("The cat sat.")])
    assert zoo.classification.Classify(request, timeout=CALL_SECONDS).provenance.model == f"models/{ARCHITECTURES[0]}"


BAD: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "no input": ("inputs", "NO_TEXT", "give at least one", {"inputs": []}),
    "too many": ("inputs", "TOO_MANY_TEXTS", "in parts", {"inputs": [text_input("a")] * 257}),
    "empty": ("inputs[1].text", "EMPTY_TEXT", "write some text", {"inputs": [text_input("a"), text_input("")]}),
    "blank pair": ("inputs[0].text_pair", "EMPTY_TEXT", "leave it out", {"inputs": [text_input("a", " ")]}),
    "no token": ("inputs[0].text", "EMPTY_TEXT", "write some text", {"inputs": [text_input("\u200b\u0301")]}),
    "too large": ("inputs[0].text", "TEXT_TOO_LARGE", "shorten it", {"inputs": [text_input("x" * 100_001)]}),
    "too long pair": ("inputs[0]", "TEXT_TOO_LONG", "truncate", {"inputs": [text_input("a", "the cat " * 60)]}),
    "no mode": ("interventions[0].mode", "UNKNOWN_MODE", "set MODE_ZERO", {"interventions": [Intervention()]}),
    "layer": (
        "interventions[0].layer",
        "LAYER_OUT_OF_RANGE",
        "layers 0 to 3",
        {"interventions": [Intervention(layer=4, mode=ZERO)]},
    ),
    "no reference texts": (
        "reference_texts",
        "REFERENCE_TEXTS_MISSING",
        "give texts",
        {"interventions": [Intervention(mode=MEAN)]},
    ),
    "unused reference texts": ("reference_texts", "REFERENCE_TEXTS_UNUSED", "leave it out", {"reference_texts": ["a"]}),
    "too many reference texts": (
        "reference_texts",
        "TOO_MANY_TEXTS",
        "in parts",
        {"interventions": [Intervention(mode=MEAN)], "reference_texts": ["a"] * 257},
    ),
    "long reference text": (
        "reference_texts[1]",
        "TEXT_TOO_LONG",
        "",
        {"interventions": [Intervention(mode=MEAN)], "reference_texts": ["a", "the cat " * 60]},
    ),
    "empty reference text": (
        "reference_texts[0]",
        "EMPTY_TEXT",
        "",
        {"interventions": [Intervention(mode=MEAN)], "reference_texts": [""]},
    ),
}


@pytest.mark.parametrize(("field", "reason", "words", "fields"), BAD.values(), ids=BAD)
def test_what_can_not_be_answered(
    lab: Host, check_alive: Callable[[Host], None], field: str, reason: str, words: str, fields: dict[str, Any]
) -> None:
    request = classification.ClassifyRequest(model="models/sorter", **{"inputs": [text_input("The cat sat.")]} | fields)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        lab.classification.Classify(request, timeout=CALL_SECONDS)
    assert failures[0].fields == [field]
    assert failures[0].info.reason == reason
    assert words in failures[0].message
    check_alive(lab)


def test_calls_at_once_with_different_interventions(lab: Host, sorters: dict[str, Path]) -> None:
    by = Measurer(lab, "models/sorter", sorters["sorter"])
    inputs = [text_input(text, pair) for text, pair in INPUTS]
    plans: list[dict[tuple[int, int], tuple[int, float]]] = [
        {},
        {(0, 1): (ZERO, 1.0)},
        {(3, 2): (UNIFORM, 1.0), (1, 1): (SCALE, -2.0)},
    ]
    alone = [by.label_logs(inputs, plan) for plan in plans]
    calls = [
        lab.classification.Classify.future(
            classification.ClassifyRequest(inputs=inputs, **by.fields(plans[number % 3])), timeout=CALL_SECONDS
        )
        for number in range(30)
    ]
    for number, call in enumerate(calls):
        found = logits_of(list(call.result().results))
        logs = found - np.logaddexp.reduce(found, axis=1, keepdims=True)
        np.testing.assert_allclose(logs, alone[number % 3], atol=2e-5)
