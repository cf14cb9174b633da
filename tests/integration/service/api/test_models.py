"""Loading, unloading and listing models through gRPC."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import huggingface_hub
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.sources import Source
from prometheus_client import generate_latest

from tests.support.harness import CALL_SECONDS, Failure, Host, held, refused
from tests.support.patience import granted, wait_until
from tests.support.tiny import corrupt_weights, pickle_only, unsupported

Progress = model.LoadProgress
GOOD = "The [MASK] sat."
FAILED = grpc.StatusCode.FAILED_PRECONDITION


def load(host: Host, **fields: Any) -> list[model.LoadModelResponse]:
    return list(host.models.LoadModel(model.LoadModelRequest(**fields), timeout=CALL_SECONDS))


def unload(host: Host, name: str) -> None:
    host.models.UnloadModel(model.UnloadModelRequest(name=name), timeout=CALL_SECONDS)


def get(host: Host, name: str) -> model.Model:
    found = host.models.GetModel(model.GetModelRequest(name=name), timeout=CALL_SECONDS).model
    assert isinstance(found, model.Model)
    return found


def names(host: Host, **fields: Any) -> list[str]:
    return [entry.name for entry in host.models.ListModels(model.ListModelsRequest(**fields)).models]


def is_listed(host: Host, name: str) -> bool:
    return name in names(host)


@pytest.fixture
def unchanged(host: Host) -> Iterator[None]:
    """Whatever a test does, the models afterwards are those from before."""
    before = host.models.ListModels(model.ListModelsRequest())
    yield
    after = host.models.ListModels(model.ListModelsRequest())
    for entry in after.models[len(before.models) :]:
        unload(host, entry.name)
    assert after == before
    assert host.metric("bertscope_models", state="loading") == 0
    assert host.metric("bertscope_models", state="ready") == len(before.models)


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A checkpoint that a test may break."""
    return Path(shutil.copytree(checkpoints["bert"], tmp_path / "copy"))


@pytest.fixture
def slow_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Loads stop in the middle of reading: (set once one is there, to be set to let it go on)."""
    there, go_on, digest = threading.Event(), threading.Event(), Source.digest

    def slow_digest(source: Source, report: Any) -> str:
        there.set()
        assert go_on.wait(granted(60))
        return digest(source, report)

    monkeypatch.setattr(Source, "digest", slow_digest)
    yield there, go_on
    go_on.set()


@pytest.mark.slow
@pytest.mark.usefixtures("unchanged")
def test_a_load_tells_its_progress_in_order_and_ends_with_the_model(host: Host, checkpoints: dict[str, Path]) -> None:
    *progress, last = load(host, model_id="new", source=str(checkpoints["roberta"]))
    assert all(message.HasField("progress") for message in progress)
    stages = [message.progress.stage for message in progress]
    assert stages == sorted(stages)
    assert {Progress.STAGE_RESOLVING, Progress.STAGE_READING, Progress.STAGE_WARMING_UP} >= set(stages)
    assert Progress.STAGE_WARMING_UP in stages
    assert Progress.STAGE_UNSPECIFIED not in stages
    for message in progress:
        assert message.progress.done_bytes <= message.progress.total_bytes
        assert message.progress.detail
    found = last.model
    assert found == get(host, "models/new")
    assert found.name == "models/new"
    assert found.source == str(checkpoints["roberta"])
    assert found.state == model.Model.STATE_READY
    reply = host.cloze.FillMask(cloze.FillMaskRequest(model="models/new", texts=[GOOD]), timeout=CALL_SECONDS)
    assert reply.provenance.weights_digest == found.weights_digest
    unload(host, "models/new")
    with refused(grpc.StatusCode.NOT_FOUND):
        get(host, "models/new")


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
    assert names(host) == everything
    for size in (1, 2, 3):
        found, token = [], ""
        while True:
            page = host.models.ListModels(model.ListModelsRequest(page_size=size, page_token=token))
            assert 1 <= len(page.models) <= size
            found += [entry.name for entry in page.models]
            token = page.next_page_token
            if not token:
                break
        assert found == everything


@pytest.mark.usefixtures("unchanged")
def test_an_id_in_use_is_taken(host: Host, checkpoints: dict[str, Path]) -> None:
    for fields in ({"model_id": "bert"}, {"model_id": ""}):
        with refused(grpc.StatusCode.ALREADY_EXISTS) as failures:
            load(host, source=str(checkpoints["bert"]), **fields)
        assert "models/bert is taken; give the model another name" in failures[0].message


@pytest.mark.usefixtures("unchanged")
def test_a_model_that_loads_is_listed_and_not_yet_used(
    host: Host, checkpoints: dict[str, Path], slow_read: tuple[threading.Event, threading.Event]
) -> None:
    there, go_on = slow_read
    call = host.models.LoadModel(model.LoadModelRequest(model_id="slow", source=str(checkpoints["bert"])))
    assert there.wait(granted(20))
    assert get(host, "models/slow").state == model.Model.STATE_LOADING
    assert host.metric("bertscope_models", state="loading") == 1
    with refused(FAILED) as failures:
        host.cloze.FillMask(cloze.FillMaskRequest(model="models/slow", texts=[GOOD]), timeout=CALL_SECONDS)
    assert "is loading; wait" in failures[0].message
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        load(host, model_id="slow", source=str(checkpoints["bert"]))
    with refused(FAILED):
        unload(host, "models/slow")
    go_on.set()
    assert list(call)[-1].model.state == model.Model.STATE_READY
    unload(host, "models/slow")


@pytest.mark.usefixtures("unchanged")
def test_a_load_cancelled_while_it_warms_up_leaves_nothing(host: Host, checkpoints: dict[str, Path]) -> None:
    with held(host) as gate:
        answer = host.cloze.FillMask.future(cloze.FillMaskRequest(texts=[GOOD]), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the worker is busy")
        call = host.models.LoadModel(model.LoadModelRequest(model_id="cold", source=str(checkpoints["bert"])))
        wait_until(lambda: host.metric("bertscope_queue_rows", device="cpu"), "the new model's first rows wait")
        call.cancel()
        wait_until(lambda: not is_listed(host, "models/cold"), "the load is forgotten")
        wait_until(lambda: not host.metric("bertscope_queue_rows", device="cpu"), "its rows are dropped")
        gate.let_through()
        assert answer.result().results


def test_sources_that_can_not_be_hosted(host: Host, copy: Path, tmp_path: Path, unchanged: None) -> None:
    def refusal(source: Path) -> Failure:
        with refused(FAILED) as failures:
            load(host, model_id="bad", source=str(source))
        return failures[0]

    missing = refusal(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in missing.message
    assert "no folder" in missing.message
    gpt = refusal(unsupported(tmp_path / "gpt"))
    assert gpt.info.reason == "ARCHITECTURE_UNSUPPORTED"
    assert "'gpt2'" in gpt.message
    assert "modernbert" in gpt.message
    corrupt_weights(copy)
    broken = refusal(copy)
    assert broken.info.reason == "SOURCE_UNREADABLE"
    assert str(copy) in broken.message


def test_pickled_weights_are_refused(host: Host, copy: Path, unchanged: None) -> None:
    pickle_only(copy)
    with refused(FAILED) as failures:
        load(host, model_id="bad", source=str(copy))
    assert failures[0].info.reason == "PICKLE_REFUSED"
    assert "convert them to model.safetensors" in failures[0].message


def test_a_checkpoint_without_tokenizer_is_refused(host: Host, copy: Path, unchanged: None) -> None:
    for path in copy.glob("tokenizer*"):
        path.unlink()
    with refused(FAILED) as failures:
        load(host, model_id="bad", source=str(copy))
    assert "tokenizer" in failures[0].message


def test_weights_of_another_shape_are_refused(host: Host, copy: Path, unchanged: None) -> None:
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(config.replace('"num_hidden_layers": 4', '"num_hidden_layers": 5'))
    with refused(FAILED) as failures:
        load(host, model_id="bad", source=str(copy))
    assert "don't fit each other" in failures[0].message
    assert "layer.4" in failures[0].message


def test_a_device_that_is_not_there(host: Host, checkpoints: dict[str, Path], unchanged: None) -> None:
    with refused(FAILED) as failures:
        load(host, model_id="bad", source=str(checkpoints["bert"]), device="cuda:77")
    assert "cuda:77 does not exist" in failures[0].message
    assert "use cpu or auto" in failures[0].message


def test_a_hub_id_while_offline(host: Host, monkeypatch: pytest.MonkeyPatch, unchanged: None) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with refused(grpc.StatusCode.UNAVAILABLE) as failures:
        load(host, source="nobody/nothing")
    assert "nobody/nothing is not in the server's cache" in failures[0].message
    assert "offline" in failures[0].message


@pytest.mark.slow
def test_unload_waits_for_calls_that_run_and_turns_later_ones_away(
    launch: Callable[..., Host], checkpoints: dict[str, Path]
) -> None:
    host = launch(model=[f"a={checkpoints['bert']}", f"b={checkpoints['bert']}"])
    with held(host, "models/a") as gate:
        answer = host.cloze.FillMask.future(cloze.FillMaskRequest(model="models/a", texts=[GOOD]), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the call runs")
        unloading = host.models.UnloadModel.future(model.UnloadModelRequest(name="models/a"), timeout=CALL_SECONDS)
        wait_until(lambda: get(host, "models/a").state == model.Model.STATE_UNLOADING, "the model is unloading")
        with pytest.raises(grpc.RpcError) as caught:
            host.cloze.FillMask(cloze.FillMaskRequest(model="models/a", texts=[GOOD]), timeout=CALL_SECONDS)
        assert caught.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
        assert not unloading.done()
        gate.let_through()
        assert len(answer.result().results) == 1
        assert unloading.result() == model.UnloadModelResponse()
    assert names(host) == ["models/b"]
    assert host.metric("bertscope_models", state="unloading") == 0
    assert 'model="models/a"' not in generate_latest(host.server.metrics.registry).decode()


def test_a_cancelled_unload_leaves_the_model_ready(host: Host, unchanged: None) -> None:
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
    request = cloze.FillMaskRequest(texts=[GOOD])
    assert host.cloze.FillMask(request, timeout=CALL_SECONDS).provenance.model == "models/bert"
    unload(host, "models/bert")
    assert host.cloze.FillMask(request, timeout=CALL_SECONDS).provenance.model == "models/roberta"
    unload(host, "models/roberta")
    with refused(grpc.StatusCode.NOT_FOUND) as failures:
        host.cloze.FillMask(request, timeout=CALL_SECONDS)
    assert "no model is loaded" in failures[0].message
    load(host, source=str(checkpoints["bert"]))
    assert host.cloze.FillMask(request, timeout=CALL_SECONDS).provenance.model == "models/bert"


def test_many_loads_of_one_id_at_the_same_time_give_one_model(
    host: Host, checkpoints: dict[str, Path], unchanged: None
) -> None:
    request = model.LoadModelRequest(model_id="race", source=str(checkpoints["bert"]))
    calls = [host.models.LoadModel(request, timeout=CALL_SECONDS) for _ in range(6)]
    outcomes = []
    for call in calls:
        try:
            outcomes.append(list(call)[-1].model.name)
        except grpc.RpcError as error:
            outcomes.append(error.code().name)
    assert sorted(outcomes) == ["ALREADY_EXISTS"] * 5 + ["models/race"]
    unload(host, "models/race")
