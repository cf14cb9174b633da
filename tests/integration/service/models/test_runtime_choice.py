"""Runtime "auto" through gRPC: one choice for the same weights, however often they are loaded, and a model that says why."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.models import runtime_timing
from bertscope_service.models.export_cache import exported
from bertscope_service.models.runtime_timing import CLEAR_ROUNDS

from tests.support.harness import CALL_SECONDS, Host
from tests.support.patience import granted

LOAD_SECONDS = granted(90.0)
Launch = Callable[..., Host]


def load(host: Host, source: Path, **fields: Any) -> model.Model:
    fields = {"model_id": "x", "runtime": common.RUNTIME_AUTO, "replace": True} | fields
    *_, last = host.models.LoadModel(model.LoadModelRequest(source=str(source), **fields), timeout=LOAD_SECONDS)
    assert last.WhichOneof("event") == "model"
    found = host.models.GetModel(model.GetModelRequest(name=f"models/{fields['model_id']}"), timeout=CALL_SECONDS).model
    assert found == last.model
    assert isinstance(found, model.Model)
    return found


class Clock:
    """Times that are made up: `torch` seconds beside 1 second of ONNX Runtime. Counts the turns."""

    def __init__(self, torch: float) -> None:
        self.torch = torch
        self.turns = 0

    async def __call__(self, encoder: Encoder, lease: object, text: object) -> tuple[float, float]:
        self.turns += 1
        return (1.0, 2.0) if encoder.runtime == "onnx" else (self.torch, 2 * self.torch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(0.5)
    monkeypatch.setattr(runtime_timing, "_timed", clock)
    return clock


@pytest.fixture
def cache(tmp_path: Path, graphs: Path) -> Path:
    """A cache with the exported graphs, and no choices."""
    shutil.copytree(graphs, tmp_path / "cache" / "onnx" / graphs.name)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def graphs(checkpoints: dict[str, Path], export_cache: Path) -> Path:
    """The folder of a checkpoint's graphs in the cache of the test run."""
    source = inspect(checkpoints["bert"])
    return exported(source, source.digest(lambda _: None), export_cache)


@pytest.mark.slow
def test_a_choice_is_made_once_and_the_model_says_which_measurement_made_it(
    launch: Launch, checkpoints: dict[str, Path], cache: Path, clock: Clock
) -> None:
    """Also on replacement, by another server with the same cache, and when it would be measured otherwise by then."""
    host = launch(cache_folder=cache)
    found = load(host, checkpoints["bert"])
    choice = found.runtime_choice
    assert found.runtime == common.RUNTIME_TORCH
    assert choice.preferred == common.RUNTIME_ONNX
    assert choice.speedup == choice.low == choice.high == pytest.approx(2.0)
    assert choice.threshold == pytest.approx(1.1)
    assert (choice.rounds, clock.turns) == (CLEAR_ROUNDS, 2 * CLEAR_ROUNDS)
    assert {one.runtime: (one.text_seconds, one.batch_seconds) for one in choice.times} == {
        common.RUNTIME_TORCH: (0.5, 1.0),
        common.RUNTIME_ONNX: (1.0, 2.0),
    }
    assert found.ready_time.ToSeconds() - 60 < choice.measured_time.ToSeconds() <= found.ready_time.ToSeconds()
    assert not choice.remembered and not choice.reason
    clock.torch = 10.0
    other = launch(cache_folder=cache)
    for again in (
        load(host, checkpoints["bert"]),
        load(host, checkpoints["bert"], model_id="y"),
        load(other, checkpoints["bert"]),
    ):
        assert again.runtime == common.RUNTIME_TORCH
        assert again.runtime_choice.remembered
        again.runtime_choice.remembered = False
        assert again.runtime_choice == choice
    assert clock.turns == 2 * CLEAR_ROUNDS


def test_only_the_chosen_library_is_read_from_then_on(
    launch: Launch, checkpoints: dict[str, Path], cache: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = launch(cache_folder=cache)
    load(host, checkpoints["bert"])
    monkeypatch.setattr(OnnxEncoder, "load", None)  # a call of it would fail
    assert load(host, checkpoints["bert"]).runtime_choice.remembered


@pytest.mark.slow
def test_a_chosen_library_that_can_no_longer_be_used_is_chosen_for_anew(
    launch: Launch, checkpoints: dict[str, Path], cache: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.torch = 2.0
    host = launch(cache_folder=cache)
    assert load(host, checkpoints["bert"]).runtime == common.RUNTIME_ONNX
    shutil.rmtree(cache / "onnx")
    (cache / "onnx").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        found = load(host, checkpoints["bert"])
    assert found.runtime == common.RUNTIME_TORCH
    assert "could not be exported" in found.runtime_choice.reason
    assert "its library is chosen anew" in caplog.text


@pytest.mark.slow
def test_models_that_one_library_can_run_say_why(
    launch: Launch, checkpoints: dict[str, Path], cache: Path, clock: Clock
) -> None:
    host = launch(cache_folder=cache)
    given = load(host, checkpoints["bert"], runtime=common.RUNTIME_ONNX)
    assert not given.HasField("runtime_choice")
    half = load(host, checkpoints["bert"], precision=common.PRECISION_BFLOAT16)
    assert half.runtime == common.RUNTIME_TORCH
    assert "not bf16" in half.runtime_choice.reason
    assert not half.runtime_choice.times and not half.runtime_choice.HasField("measured_time")
    (folder,) = (cache / "onnx").glob("*/fast.onnx")
    graphs = load(host, folder.parent)
    assert graphs.runtime == common.RUNTIME_ONNX
    assert "ONNX graphs" in graphs.runtime_choice.reason
    assert not clock.turns


@pytest.mark.slow
def test_real_times_give_one_runtime_and_calls_go_on_meanwhile(
    launch: Launch, checkpoints: dict[str, Path], cache: Path
) -> None:
    host = launch(cache_folder=cache)
    ask = cloze.FillMaskRequest(model="models/bert", texts=["The [MASK] sat."])
    loading = host.models.LoadModel(
        model.LoadModelRequest(model_id="x", source=str(checkpoints["bert"]), runtime=common.RUNTIME_AUTO), timeout=LOAD_SECONDS
    )
    for event in loading:
        assert len(host.cloze.FillMask(ask, timeout=CALL_SECONDS).results) == 1
        last = event
    choice = last.model.runtime_choice
    assert choice.rounds >= runtime_timing.MIN_ROUNDS
    assert 0 < choice.low <= choice.speedup <= choice.high
    taken = common.RUNTIME_TORCH if choice.low > choice.threshold else common.RUNTIME_ONNX
    assert last.model.runtime == taken
    assert {load(host, checkpoints["bert"]).runtime for _ in range(3)} == {taken}
    assert not host.metric("bertscope_device_lent", device="cpu")
