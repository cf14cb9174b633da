"""Loading, unloading and listing models through gRPC."""

import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import huggingface_hub
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope.v1 import model_pb2 as model
from prometheus_client import generate_latest

from tests.support.calls import call, get, held_digests, load, models_as_before, refusal
from tests.support.harness import CALL_SECONDS, Host, held
from tests.support.patience import wait_until
from tests.support.tiny import corrupt_weights, pickle_only, unsupported

Progress = model.LoadProgress
GOOD = "The [MASK] sat."
FAILED, EXISTS, NOT_FOUND = (grpc.StatusCode[name] for name in ("FAILED_PRECONDITION", "ALREADY_EXISTS", "NOT_FOUND"))


def unload(host: Host, name: str) -> None:
    call(host, "UnloadModel", name=name)


@pytest.fixture
def unchanged(host: Host) -> Iterator[None]:
    """Whatever a test does, the models afterwards are those from before."""
    with models_as_before(host):
        yield
    assert host.metric("bertscope_models", state="loading") == 0
    assert host.metric("bertscope_models", state="ready") == len(host.names())


@pytest.mark.slow
@pytest.mark.usefixtures("unchanged")
def test_a_load_tells_its_progress_in_order_and_ends_with_the_model(host: Host, checkpoints: dict[str, Path]) -> None:
    *progress, last = call(host, "LoadModel", model_id="new", source=str(checkpoints["roberta"]))
    assert all(message.HasField("progress") for message in progress)
    stages = [message.progress.stage for message in progress]
    assert stages == sorted(stages)
    assert Progress.STAGE_WARMING_UP in stages
    assert {Progress.STAGE_RESOLVING, Progress.STAGE_READING, Progress.STAGE_WARMING_UP} >= set(stages)
    for message in progress:
        assert message.progress.done_bytes <= message.progress.total_bytes
        assert message.progress.detail
    found = last.model
    assert found == get(host, "models/new")
    assert (found.name, found.source, found.state) == ("models/new", str(checkpoints["roberta"]), model.Model.STATE_READY)
    reply = call(host, "FillMask", model="models/new", texts=[GOOD])
    assert reply.provenance.weights_digest == found.weights_digest
    unload(host, "models/new")
    refusal(host, "GetModel", code=NOT_FOUND, name="models/new")


def test_a_model_says_all_about_itself(host: Host, checkpoints: dict[str, Path]) -> None:
    bert, roberta, headless = (get(host, f"models/{name}") for name in ("bert", "roberta", "headless"))
    assert (bert.architecture, roberta.architecture) == ("bert", "roberta")
    assert (bert.layers, bert.heads, bert.hidden_size, bert.max_tokens) == (4, 4, 32, 64)
    assert (bert.mask_token, roberta.mask_token) == ("[MASK]", "<mask>")
    assert bert.weight_bytes == (checkpoints["bert"] / "model.safetensors").stat().st_size
    assert bert.weights_digest != headless.weights_digest
    assert (bert.device, bert.precision, bert.runtime) == ("cpu", common_pb2.PRECISION_FLOAT32, common_pb2.RUNTIME_TORCH)
    assert bert.parameters > 10_000
    assert bert.ready_time.seconds > 1_700_000_000
    everything = {model.CAPABILITY_ATTENTION, model.CAPABILITY_CLOZE, model.CAPABILITY_INTERVENTIONS}
    everything |= {model.CAPABILITY_RANKING, model.CAPABILITY_PRUNING, model.CAPABILITY_HIDDEN_STATES}
    assert set(bert.capabilities) == set(roberta.capabilities) == everything
    assert set(headless.capabilities) == everything - {model.CAPABILITY_CLOZE}


def test_the_list_comes_in_pages_the_default_model_first(host: Host) -> None:
    everything = ["models/bert", "models/roberta", "models/headless"]
    assert host.names() == everything
    for size in (1, 2, 3):
        found, token = [], ""
        while token or not found:
            page = call(host, "ListModels", page_size=size, page_token=token)
            assert 1 <= len(page.models) <= size
            found += [entry.name for entry in page.models]
            token = page.next_page_token
        assert found == everything


@pytest.mark.usefixtures("unchanged")
def test_an_id_in_use_is_taken(host: Host, checkpoints: dict[str, Path]) -> None:
    for model_id in ("bert", ""):
        failure = refusal(host, "LoadModel", code=EXISTS, source=str(checkpoints["bert"]), model_id=model_id)
        assert "models/bert is taken; give the model another name" in failure.message


@pytest.mark.usefixtures("unchanged")
def test_a_model_that_loads_is_listed_and_not_yet_used(host: Host, checkpoints: dict[str, Path]) -> None:
    request = {"model_id": "slow", "source": str(checkpoints["bert"])}
    with held_digests() as gate:
        loading = host.models.LoadModel(model.LoadModelRequest(**request))
        wait_until(lambda: gate.arrived, "it is read")
        assert get(host, "models/slow").state == model.Model.STATE_LOADING
        assert host.metric("bertscope_models", state="loading") == 1
        failure = refusal(host, "FillMask", code=FAILED, model="models/slow", texts=[GOOD])
        assert "is loading; wait" in failure.message
        refusal(host, "LoadModel", code=EXISTS, **request)
        refusal(host, "UnloadModel", code=FAILED, name="models/slow")
        gate.let_through()
        assert list(loading)[-1].model.state == model.Model.STATE_READY


@pytest.mark.usefixtures("unchanged")
def test_a_load_cancelled_while_it_warms_up_leaves_nothing(host: Host, checkpoints: dict[str, Path]) -> None:
    with held(host) as gate:
        answer = host.cloze.FillMask.future(cloze.FillMaskRequest(texts=[GOOD]), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the worker is busy")
        loading = host.models.LoadModel(model.LoadModelRequest(model_id="cold", source=str(checkpoints["bert"])))
        wait_until(lambda: host.metric("bertscope_queue_rows", device="cpu"), "the new model's first rows wait")
        loading.cancel()
        wait_until(lambda: "models/cold" not in host.names(), "the load is forgotten")
        wait_until(lambda: not host.metric("bertscope_queue_rows", device="cpu"), "its rows are dropped")
        gate.let_through()
        assert answer.result().results


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def of_five_layers(folder: Path) -> None:
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"num_hidden_layers": 4', '"num_hidden_layers": 5'))


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("spoil", "reason", "words"),
    [
        (shutil.rmtree, "", ("no folder", "$folder")),
        (unsupported, "ARCHITECTURE_UNSUPPORTED", ("'gpt2'", "modernbert")),
        (corrupt_weights, "SOURCE_UNREADABLE", ("$folder",)),
        (pickle_only, "PICKLE_REFUSED", ("convert them to model.safetensors",)),
        (without_tokenizer, "", ("tokenizer",)),
        (of_five_layers, "", ("don't fit each other", "layer.4")),
    ],
)
def test_sources_that_can_not_be_hosted(
    host: Host, checkpoints: dict[str, Path], tmp_path: Path, spoil: Callable[[Path], Any], reason: str, words: tuple[str, ...]
) -> None:
    folder = Path(shutil.copytree(checkpoints["bert"], tmp_path / "copy"))
    spoil(folder)
    failure = refusal(host, "LoadModel", code=FAILED, model_id="bad", source=str(folder))
    assert not reason or failure.info.reason == reason
    assert all(word.replace("$folder", str(folder)) in failure.message for word in words)


@pytest.mark.usefixtures("unchanged")
def test_what_is_not_there(host: Host, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A device, and an id of the hub while offline."""
    failure = refusal(host, "LoadModel", code=FAILED, model_id="bad", source=str(checkpoints["bert"]), device="cuda:77")
    assert "cuda:77 does not exist" in failure.message
    assert "use cpu or auto" in failure.message
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    failure = refusal(host, "LoadModel", code=grpc.StatusCode.UNAVAILABLE, source="nobody/nothing")
    assert "nobody/nothing is not in the server's cache" in failure.message
    assert "offline" in failure.message


@pytest.mark.slow
def test_unload_waits_for_calls_that_run_and_turns_later_ones_away(
    launch: Callable[..., Host], checkpoints: dict[str, Path]
) -> None:
    host = launch(model=[f"a={checkpoints['bert']}", f"b={checkpoints['bert']}"])
    gone = threading.Event()
    weakref.finalize(host.server.registry.find("models/a").loaded.encoder, gone.set)  # type: ignore[union-attr]
    with held(host, "models/a") as gate:
        answer = host.cloze.FillMask.future(cloze.FillMaskRequest(model="models/a", texts=[GOOD]), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the call runs")
        unloading = host.models.UnloadModel.future(model.UnloadModelRequest(name="models/a"), timeout=CALL_SECONDS)
        wait_until(lambda: get(host, "models/a").state == model.Model.STATE_UNLOADING, "the model is unloading")
        with pytest.raises(grpc.RpcError) as caught:
            call(host, "FillMask", model="models/a", texts=[GOOD])
        assert caught.value.code() in (NOT_FOUND, FAILED)
        assert not unloading.done()
        gate.let_through()
        assert len(answer.result().results) == 1
        assert unloading.result() == model.UnloadModelResponse()
    assert gone.wait(CALL_SECONDS), "nothing of it is kept"
    assert host.names() == ["models/b"]
    assert host.metric("bertscope_models", state="unloading") == 0
    assert 'model="models/a"' not in generate_latest(host.server.metrics.registry).decode()


@pytest.mark.usefixtures("unchanged")
def test_a_cancelled_unload_leaves_the_model_ready(host: Host) -> None:
    with held(host, "models/roberta") as gate:
        answer = host.cloze.FillMask.future(cloze.FillMaskRequest(model="models/roberta", texts=[GOOD]), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the call runs")
        unloading = host.models.UnloadModel.future(model.UnloadModelRequest(name="models/roberta"), timeout=CALL_SECONDS)
        wait_until(lambda: get(host, "models/roberta").state == model.Model.STATE_UNLOADING, "the model is unloading")
        unloading.cancel()
        wait_until(lambda: get(host, "models/roberta").state == model.Model.STATE_READY, "the model is ready again")
        gate.let_through()
        assert answer.result().results


def test_the_next_model_is_the_default_once_the_first_is_gone(
    launch: Callable[..., Host], checkpoints: dict[str, Path]
) -> None:
    host = launch(model=[f"{name}={checkpoints[name]}" for name in ("bert", "roberta")])
    for name in ("models/bert", "models/roberta"):
        assert call(host, "FillMask", texts=[GOOD]).provenance.model == name
        unload(host, name)
    assert "no model is loaded" in refusal(host, "FillMask", code=NOT_FOUND, texts=[GOOD]).message
    load(host, source=str(checkpoints["bert"]))
    assert call(host, "FillMask", texts=[GOOD]).provenance.model == "models/bert"


@pytest.mark.usefixtures("unchanged")
def test_many_loads_of_one_id_at_the_same_time_give_one_model(host: Host, checkpoints: dict[str, Path]) -> None:
    request = model.LoadModelRequest(model_id="race", source=str(checkpoints["bert"]))
    outcomes = []
    for loading in [host.models.LoadModel(request, timeout=CALL_SECONDS) for _ in range(6)]:
        try:
            outcomes.append(list(loading)[-1].model.name)
        except grpc.RpcError as error:
            outcomes.append(error.code().name)
    assert sorted(outcomes) == ["ALREADY_EXISTS"] * 5 + ["models/race"]
