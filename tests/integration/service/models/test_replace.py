"""LoadModel with replace: no gap between the old weights and the new ones, and nothing changes until the new ones are ready."""

import asyncio
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bertscope_service.api.read_ahead
import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.models.warm_up import warm_up
from bertscope_service.rpc import hosting
from numpy.testing import assert_allclose

from tests.support.harness import CALL_SECONDS, Host, read_maps, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import MASKED, Sweep, divergence
from tests.support.tiny import corrupt_weights, write_checkpoint

FAILED = grpc.StatusCode.FAILED_PRECONDITION
NAME = "models/first"
TEXTS = ("The [MASK] sat.", "Paris is the capital of [MASK].", "The [MASK] waited near the window.")
SEQUENCE = "the cat sat on the mat " * 8
SWEEP = ablation.SweepHeadsRequest(model=NAME, objective=divergence(MASKED), mode=common.HeadIntervention.MODE_ZERO)


@dataclass(frozen=True)
class Answer:
    """What a call said, and of which weights."""

    digest: str
    pieces: list[list[int]]
    probabilities: list[list[float]]

    def check(self, truths: dict[str, "Answer"]) -> None:
        """Fail unless it is what the weights that it names say."""
        true = truths[self.digest]
        assert self.pieces == true.pieces
        assert_allclose(self.probabilities, true.probabilities, atol=1e-5)


def ask(host: Host, name: str = NAME, stub: Any = None) -> Answer:
    request = cloze.FillMaskRequest(model=name, texts=TEXTS, top_k=3)
    reply = (stub or host.cloze).FillMask(request, timeout=CALL_SECONDS)
    found = [result.masks[0].predictions for result in reply.results]
    return Answer(
        reply.provenance.weights_digest,
        [[prediction.piece_ids[0] for prediction in predictions] for predictions in found],
        [[prediction.probability for prediction in predictions] for predictions in found],
    )


def loading(host: Host, source: Path, **fields: Any) -> Any:
    chosen: dict[str, Any] = {"model_id": "first", "source": str(source), "replace": True} | fields
    return host.models.LoadModel(model.LoadModelRequest(**chosen), timeout=CALL_SECONDS)


def load(host: Host, source: Path, **fields: Any) -> model.Model:
    last = list(loading(host, source, **fields))[-1]
    assert isinstance(last.model, model.Model)
    return last.model


def listed(host: Host) -> list[model.Model]:
    return list(host.models.ListModels(model.ListModelsRequest(), timeout=CALL_SECONDS).models)


def count(host: Host, state: str) -> float:
    return host.metric("bertscope_models", state=state)


def maps_of(texts: int) -> attention.ExtractAttentionRequest:
    inputs = [common.TextInput(text=SEQUENCE) for _ in range(texts)]
    return attention.ExtractAttentionRequest(model=NAME, inputs=inputs)


@pytest.fixture(scope="module")
def red(checkpoints: dict[str, Path]) -> Path:
    return checkpoints["bert"]


@pytest.fixture(scope="module")
def blue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same architecture with other weights."""
    return write_checkpoint("bert", tmp_path_factory.mktemp("blue") / "blue", seed=1)


@pytest.fixture
def paints(launch: Callable[..., Host], red: Path, checkpoints: dict[str, Path]) -> Host:
    """Hosts models/first, which is red and the default, and models/second."""
    return launch(model=[f"first={red}", f"second={checkpoints['roberta']}"])


@pytest.fixture(scope="module")
def truths(host: Host, blue: Path) -> dict[str, Answer]:
    """What red and blue say, by the digest of their weights."""
    load(host, blue, model_id="blue", replace=False)
    found = [ask(host, "models/bert"), ask(host, "models/blue")]
    host.models.UnloadModel(model.UnloadModelRequest(name="models/blue"), timeout=CALL_SECONDS)
    assert found[0].pieces != found[1].pieces
    return {answer.digest: answer for answer in found}


class Gate:
    """Where models wait before their first run, once it is shut."""

    def __init__(self) -> None:
        self.shut_for = ""
        self.arrived = threading.Event()
        self.open = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate()

    async def gated(engine: Any, loaded: LoadedModel) -> LoadedModel:
        if loaded.name == found.shut_for:
            found.arrived.set()
            assert await asyncio.to_thread(found.open.wait, granted(60))
        return await warm_up(engine, loaded)

    monkeypatch.setattr(hosting, "warm_up", gated)
    yield found
    found.open.set()


@pytest.fixture
def replacing(paints: Host, blue: Path, gate: Gate) -> Any:
    """A call that replaces models/first, and waits for its first run behind the gate."""
    gate.shut_for = NAME
    call = loading(paints, blue)
    assert gate.arrived.wait(granted(20))
    return call


@pytest.mark.slow
def test_the_new_model_takes_the_name_and_the_place_of_the_old_one(paints: Host, blue: Path, truths: dict[str, Answer]) -> None:
    red_digest, blue_digest = truths
    before = listed(paints)
    assert ask(paints).digest == red_digest
    *progress, last = loading(paints, blue)
    assert {message.progress.stage for message in progress} >= {model.LoadProgress.STAGE_WARMING_UP}
    assert (last.model.name, last.model.source, last.model.weights_digest) == (NAME, str(blue), blue_digest)
    assert last.model.state == model.Model.STATE_READY
    assert last.model.ready_time.ToNanoseconds() > before[0].ready_time.ToNanoseconds()
    assert listed(paints) == [last.model, before[1]]
    for name in (NAME, ""):
        found = ask(paints, name)
        assert found.digest == blue_digest
        found.check(truths)
    wait_until(lambda: count(paints, "unloading") == 0, "the old model is gone")
    assert (count(paints, "loading"), count(paints, "ready")) == (0, 2)
    assert paints.metric("bertscope_model_weight_bytes", model=NAME) == (blue / "model.safetensors").stat().st_size


def test_while_it_is_replaced_a_model_changes_in_no_other_way(
    paints: Host, replacing: Any, red: Path, blue: Path, gate: Gate, truths: dict[str, Answer]
) -> None:
    """And everybody sees the old one."""
    red_digest, blue_digest = truths
    shown = [(found.name, found.state) for found in listed(paints)]
    assert shown == [(name, model.Model.STATE_READY) for name in (NAME, "models/second")]
    assert (count(paints, "loading"), count(paints, "ready")) == (1, 2)
    for name in (NAME, ""):
        found = ask(paints, name)
        assert found.digest == red_digest
        found.check(truths)
    for change in (
        lambda: load(paints, red),
        lambda: paints.models.UnloadModel(model.UnloadModelRequest(name=NAME), timeout=CALL_SECONDS),
    ):
        with refused(FAILED) as failures:
            change()
        assert failures[0].info.reason == "MODEL_BEING_REPLACED"
        assert "wait until that is done" in failures[0].message
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        load(paints, red, replace=False)
    # What is made of it is made of the old one, and may not take its name.
    heads = [common.LayerHeads(layer=0, heads=[0])]
    request = ablation.PruneHeadsRequest(model=NAME, model_id="first", heads=heads)
    with refused(grpc.StatusCode.ALREADY_EXISTS) as failures:
        paints.ablation.PruneHeads(request, timeout=CALL_SECONDS)
    assert "replace" not in failures[0].message
    request.model_id = "pruned"
    made = paints.ablation.PruneHeads(request, timeout=CALL_SECONDS).model
    gate.open.set()
    assert list(replacing)[-1].model.weights_digest == blue_digest
    of_blue = ablation.PruneHeadsRequest(model=NAME, model_id="other", heads=heads)
    assert paints.ablation.PruneHeads(of_blue, timeout=CALL_SECONDS).model.weights_digest != made.weights_digest
    ask(paints).check(truths)
    load(paints, red)
    paints.models.UnloadModel(model.UnloadModelRequest(name=NAME), timeout=CALL_SECONDS)
    assert NAME not in [found.name for found in listed(paints)]


@pytest.mark.slow
def test_a_failed_replacement_leaves_the_old_model_as_it_was(
    paints: Host, red: Path, blue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truths: dict[str, Answer]
) -> None:
    async def broken(*_: Any) -> LoadedModel:
        raise RuntimeError("it can't run here")

    before = listed(paints)
    copy = Path(shutil.copytree(red, tmp_path / "copy"))
    corrupt_weights(copy)
    for source in (copy, tmp_path / "nowhere"):
        with refused(FAILED):
            load(paints, source)
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        load(paints, blue, device="toaster")
    monkeypatch.setattr(hosting, "warm_up", broken)
    with refused(grpc.StatusCode.INTERNAL):
        load(paints, blue)
    assert listed(paints) == before
    assert (count(paints, "loading"), count(paints, "ready"), count(paints, "unloading")) == (0, 2, 0)
    found = ask(paints)
    assert found.digest == before[0].weights_digest
    found.check(truths)


@pytest.mark.slow
def test_streams_that_run_finish_on_the_old_weights_whose_memory_goes_with_the_last_of_them(
    paints: Host, blue: Path, truths: dict[str, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    red_digest, blue_digest = truths
    expected_sweep = Sweep(list(paints.ablation.SweepHeads(SWEEP, timeout=CALL_SECONDS)))
    (expected_maps,) = read_maps(paints.attention.ExtractAttention(maps_of(1), timeout=CALL_SECONDS))
    monkeypatch.setattr(bertscope_service.api.read_ahead, "WINDOW_BYTES", expected_maps.values.nbytes)
    loaded = paints.server.registry.find(NAME).loaded
    assert loaded is not None
    gone = threading.Event()
    watch = weakref.finalize(loaded.encoder, gone.set)
    del loaded
    sweeping = paints.ablation.SweepHeads(SWEEP, timeout=CALL_SECONDS)
    reading = paints.attention.ExtractAttention(maps_of(100), timeout=CALL_SECONDS)
    received_sweep, received_maps = [next(sweeping)], [next(reading)]
    assert load(paints, blue).weights_digest == blue_digest
    ask(paints).check(truths)
    assert (count(paints, "ready"), count(paints, "unloading")) == (2, 1)
    assert watch.alive
    received_sweep += sweeping
    found = Sweep(received_sweep)
    assert found.summary.provenance.weights_digest == red_digest
    for effect, expected in zip(found.effects, expected_sweep.effects, strict=True):
        assert effect.heads == expected.heads
        assert_allclose(scores(effect), scores(expected), atol=1e-5)
    received_maps += reading
    maps = read_maps(received_maps)
    assert len(maps) == 100
    for text in maps:
        assert text.header.provenance.weights_digest == red_digest
        assert_allclose(text.values, expected_maps.values, atol=2e-5)
    assert gone.wait(granted(20))
    wait_until(lambda: count(paints, "unloading") == 0, "the old model is counted no more")
    (new_maps,) = read_maps(paints.attention.ExtractAttention(maps_of(1), timeout=CALL_SECONDS))
    assert np.abs(new_maps.values - expected_maps.values).max() > 0.01


def scores(effect: ablation.HeadEffect) -> list[float]:
    return [metric.score for metric in effect.metrics]
