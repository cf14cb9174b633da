"""The Open Inference Protocol: what it answers is what transformers and FillMask answer, also on three architectures, and for
models that were compressed."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from tests.support.calls import call, models_as_before
from tests.support.family import THREE
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.patience import wait_until
from tests.support.tensor_calls import CLOZES, Reference, ask, check_close, outputs_of
from tests.support.tiny import SENTENCES

HOSTED = {"torch": ("bert", "roberta", "headless", "sorter"), "onnx": ("bert", "sorter")}
"""By runtime; models/roberta has no segments, models/headless no head. An export takes seconds."""


@pytest.fixture(scope="module", params=["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def served(
    request: pytest.FixtureRequest, loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]
) -> Iterator[Host]:
    folders = checkpoints | sorters
    models = [f"{name}={folders[name]}" for name in HOSTED[request.param]]
    with launched(loop, load=False, model=models, runtime=request.param) as running:
        loop.run(running.server.load_models())
        yield running


def hosted(host: Host, *names: str) -> list[str]:
    """Which of these a server of the fixture hosts."""
    return [name for name in names if name in HOSTED[host.settings.runtime]]


@pytest.mark.slow
@pytest.mark.parametrize("raw", [True, False])
def test_hidden_states_are_those_of_transformers_and_zero_at_padding(
    served: Host, checkpoints: dict[str, Path], raw: bool
) -> None:
    for name in hosted(served, "bert", "roberta", "headless"):
        reference = Reference(checkpoints[name])
        (found,) = ask(served, reference.inputs, model=name, raw=raw).values()
        assert found.shape == (*reference.mask.shape, 32)
        check_close(found[reference.mask], reference.give("last_hidden_state")[reference.mask])
        assert not found[~reference.mask].any()


def test_logits_are_those_of_transformers(served: Host, checkpoints: dict[str, Path]) -> None:
    for name in hosted(served, "bert", "roberta"):
        reference = Reference(checkpoints[name], AutoModelForMaskedLM)
        found = ask(served, reference.inputs, ["logits"], model=f"models/{name}")["logits"]
        check_close(found[reference.mask], reference.give("logits")[reference.mask])
        assert not found[~reference.mask].any()


def test_labels_are_those_of_transformers(served: Host, sorters: dict[str, Path]) -> None:
    reference = Reference(sorters["sorter"], AutoModelForSequenceClassification)
    expected = reference.give("logits")
    check_close(ask(served, reference.inputs, model="sorter")["logits"], expected)
    found = ask(served, reference.inputs, ["probability", "label"], model="sorter", top_k=2)
    assert list(found) == ["probability", "label"]
    shares = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    best = np.argsort(-expected, axis=1)[:, :2]
    check_close(found["probability"], np.take_along_axis(shares, best, axis=1))
    names = np.array([reference.model.config.id2label[label] for label in range(3)])
    assert (found["label"] == names[best]).all()


def test_segments_reach_the_model(served: Host, checkpoints: dict[str, Path]) -> None:
    reference = Reference(checkpoints["bert"], texts=SENTENCES[:2])
    reference.inputs["token_type_ids"][:, 3:] = 1
    found = ask(served, reference.inputs)["last_hidden_state"]
    check_close(found[reference.mask], reference.give("last_hidden_state")[reference.mask])


@pytest.mark.parametrize("raw", [True, False])
def test_texts_are_filled_as_by_fill_mask(served: Host, raw: bool) -> None:
    for name in hosted(served, "bert", "roberta"):
        expected = call(served, "FillMask", model=f"models/{name}", texts=CLOZES, top_k=4)
        by_text = ask(served, {"text": CLOZES}, ["token", "probability", "token_id"], model=name, raw=raw, top_k=4)
        for row, result in enumerate(expected.results):
            predictions = result.masks[0].predictions
            assert by_text["token"][row].tolist() == [one.token for one in predictions]
            assert by_text["token_id"][row].tolist() == [one.piece_ids[0] for one in predictions]
            check_close(by_text["probability"][row], np.array([one.probability for one in predictions]))


@pytest.mark.slow
def test_every_output_goes_with_texts_and_with_ids(served: Host, checkpoints: dict[str, Path]) -> None:
    for name in hosted(served, "bert", "roberta", "headless", "sorter"):
        metadata = call(served, "ModelMetadata", name=name)
        outputs = [output.name for output in metadata.outputs]
        reference = Reference(checkpoints.get(name, checkpoints["bert"]), texts=CLOZES)
        by_text, by_ids = ask(served, {"text": CLOZES}, outputs, model=name), ask(served, reference.inputs, outputs, model=name)
        assert list(by_text) == list(by_ids) == outputs
        for output in metadata.outputs:
            one, other = by_text[output.name], by_ids[output.name]
            assert len(output.shape) == one.ndim
            assert all(size in (-1, found) for size, found in zip(output.shape, one.shape, strict=True))
            assert (one == other).all() if output.datatype != "FP32" else np.allclose(one, other, atol=1e-5)


def test_what_is_not_asked_for_is_what_goes_with_the_input(served: Host, checkpoints: dict[str, Path]) -> None:
    inputs = Reference(checkpoints["bert"], texts=CLOZES).inputs
    expected = {
        "bert": (["token", "probability"], ["last_hidden_state"]),
        "headless": (["last_hidden_state"], ["last_hidden_state"]),
        "sorter": (["label", "probability"], ["logits"]),
    }
    for name in hosted(served, *expected):
        by_text, by_ids = expected[name]
        assert list(ask(served, {"text": CLOZES}, model=name)) == by_text
        assert list(ask(served, inputs, model=name)) == by_ids
    assert ask(served, {"text": CLOZES}, model="sorter")["label"].shape == (3, 3)


def test_metadata_tells_what_a_model_takes_and_gives(served: Host) -> None:
    server = call(served, "ServerMetadata")
    assert (server.name, list(server.extensions)) == ("bertscope", ["model_configuration"])
    found = call(served, "ModelMetadata", name="bert", version="1")
    assert (found.name, list(found.versions)) == ("bert", ["1"])
    assert found.platform == {"torch": "pytorch_torch", "onnx": "onnx_onnxv1"}[served.settings.runtime]
    inputs = {tensor.name: (tensor.datatype, list(tensor.shape)) for tensor in found.inputs}
    ids = ("INT64", [-1, -1])
    assert inputs == {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids, "text": ("BYTES", [-1, 1])}
    outputs = {tensor.name: (tensor.datatype, list(tensor.shape)) for tensor in found.outputs}
    assert outputs["last_hidden_state"] == ("FP32", [-1, -1, 32])
    assert outputs["token"] == ("BYTES", [-1, -1])
    for name in hosted(served, "roberta"):
        roberta = call(served, "ModelMetadata", name=name)
        assert "token_type_ids" not in {tensor.name for tensor in roberta.inputs}
    sorter = call(served, "ModelMetadata", name="models/sorter")
    assert sorter.name == "models/sorter"
    assert {tensor.name for tensor in sorter.outputs} == {"last_hidden_state", "logits", "label", "probability"}
    config = call(served, "ModelConfig", name="bert").config
    assert (config.name, config.platform, config.max_batch_size) == ("bert", found.platform, served.settings.max_texts)
    assert {one.name: list(one.dims) for one in config.input} == {name: shape[1:] for name, (_, shape) in inputs.items()}
    assert {one.name: list(one.dims) for one in config.output} == {name: shape[1:] for name, (_, shape) in outputs.items()}
    assert all(one.optional for one in config.input)


@pytest.mark.slow
def test_readiness_follows_loading_and_stopping(loop: LoopThread, checkpoints: dict[str, Path]) -> None:
    with launched(loop, load=False, model=[f"bert={checkpoints['bert']}"]) as host:

        def state() -> tuple[bool, bool, bool]:
            return call(host, "ServerLive").live, call(host, "ServerReady").ready, call(host, "ModelReady", name="bert").ready

        assert state() == (True, False, False)
        loop.run(host.server.load_models())
        assert state() == (True, True, True)
        for name, version in (("models/bert", "1"), ("bert", "2"), ("nobody", ""), ("", "")):
            assert call(host, "ModelReady", name=name, version=version).ready == (name == "models/bert")
        stopping = asyncio.run_coroutine_threadsafe(host.server.stop(20, drain_seconds=600), loop.loop)
        wait_until(lambda: state() == (True, False, False), "it says that it stops")
        assert len(ask(host, {"text": CLOZES})["token"]) == len(CLOZES)
        host.server._calls.draining = True
        assert state() == (True, False, False)
        with refused(grpc.StatusCode.UNAVAILABLE) as failures:
            ask(host, {"text": CLOZES})
        assert failures[0].info.reason == "DRAINING"
        loop.loop.call_soon_threadsafe(host.server.stop_now)
        stopping.result(CALL_SECONDS)


FILLED = ["token_id", "token", "probability"]


@pytest.fixture(scope="module")
def family(loop: LoopThread, checkpoint: Callable[[str], Path]) -> Iterator[Host]:
    """Hosts each of three architectures under its name."""
    with launched(loop, model=[f"{name}={checkpoint(name)}" for name in THREE]) as running:
        yield running


def fill(host: Host, name: str, texts: tuple[str, ...]) -> list[Any]:
    """FillMask's predictions for each text."""
    return [result.masks[0].predictions for result in call(host, "FillMask", model=f"models/{name}", texts=texts).results]


def check_filled(found: dict[str, NDArray[Any]], expected: list[Any]) -> None:
    assert list(found) == FILLED
    assert found["token"].tolist() == [[one.token for one in row] for row in expected]
    assert found["token_id"].tolist() == [[one.piece_ids[0] for one in row] for row in expected]
    check_close(found["probability"], np.array([[one.probability for one in row] for row in expected]))


@pytest.mark.slow
@pytest.mark.parametrize("name", THREE)
def test_every_architecture_gives_what_transformers_gives(family: Host, checkpoint: Callable[[str], Path], name: str) -> None:
    whole, bare = (Reference(checkpoint(name), kind, SENTENCES[:5]) for kind in (AutoModelForMaskedLM, AutoModel))
    mask = whole.mask
    found = ask(family, whole.inputs, ["logits", "last_hidden_state"], model=name)
    check_close(found["logits"][mask], whole.give("logits")[mask])
    check_close(found["last_hidden_state"][mask], bare.give("last_hidden_state")[mask])
    assert not found["logits"][~mask].any()
    assert not found["last_hidden_state"][~mask].any()


@pytest.fixture
def compress(family: Host) -> Iterator[Callable[..., Any]]:
    """Makes models/small from models/bert by one step."""

    def make(**step: Any) -> Any:
        return call(family, "CompressModel", model="models/bert", model_id="small", steps=[step])[-1].model

    with models_as_before(family):
        yield make


def test_ids_are_those_of_a_reduced_vocabulary(family: Host, compress: Callable[..., Any]) -> None:
    size = compress(vocabulary={"texts": SENTENCES}).vocabulary_size
    assert outputs_of(family, "small")["logits"].shape == [-1, -1, size]
    assert ask(family, {"input_ids": np.array([[size - 1]])}, ["logits"], model="small")["logits"].shape == (1, 1, size)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        ask(family, {"input_ids": np.array([[0, size]])}, model="small")
    assert (failures[0].info.reason, failures[0].fields) == ("ID_OUT_OF_RANGE", ["input_ids[0, 1]"])
    check_filled(ask(family, {"text": CLOZES}, FILLED, model="small"), fill(family, "small", CLOZES))


@pytest.mark.slow
def test_models_that_drop_tokens_fill_masks_and_give_nothing_for_each_token(
    family: Host, checkpoint: Callable[[str], Path], compress: Callable[..., Any]
) -> None:
    compress(tokens={"kept_shares": [1.0, 0.7, 0.5, 0.5]})
    assert set(outputs_of(family, "small")) == set(FILLED)
    inputs = Reference(checkpoint("bert"), texts=CLOZES).inputs
    check_filled(ask(family, inputs, FILLED, model="small"), fill(family, "small", CLOZES))
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        ask(family, inputs, ["last_hidden_state"], model="small")
    assert failures[0].info.reason == "NO_OUTPUT"


@pytest.mark.slow
def test_models_of_integers_give_nearly_the_same(
    family: Host, checkpoint: Callable[[str], Path], compress: Callable[..., Any]
) -> None:
    compress(int8={})
    inputs = Reference(checkpoint("bert")).inputs
    found, expected = (
        ask(family, inputs, ["last_hidden_state"], model=name)["last_hidden_state"] for name in ("small", "bert")
    )
    assert 0 < np.abs(found - expected).max() < 0.2 * np.abs(expected).max()
