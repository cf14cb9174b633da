"""BenchmarkModels compares like with like: by one library, in one number format, by copies that go when it is over."""

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import grpc
import pytest
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope.v1 import benchmark_pb2_grpc
from bertscope.v1 import common_pb2 as common
from bertscope_service.benchmark import integer_speed
from bertscope_service.benchmark.integer_speed import LITTLE_GAIN
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.observability.machine import LoadMeter

from tests.support.calls import call, get, load, refusal
from tests.support.harness import Host, LoopThread, held, launched
from tests.support.patience import granted, wait_until
from tests.support.tiny import SENTENCES

LOAD_SECONDS = granted(240.0)
BRIEF = {"min_runs": 3, "min_seconds": 0.0, "lengths": [8], "batch_sizes": [1]}
FP32, BF16, INT8 = common.PRECISION_FLOAT32, common.PRECISION_BFLOAT16, common.PRECISION_INT8
TORCH, ONNX = common.RUNTIME_TORCH, common.RUNTIME_ONNX
UNSUPPORTED = grpc.StatusCode.UNIMPLEMENTED

pytestmark = [
    pytest.mark.usefixtures("short_warm_up"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]  # five models are loaded and exported before the first test


@pytest.fixture(scope="module")
def mixed(loop: LoopThread, checkpoints: dict[str, Path], export_cache: Path) -> Iterator[Host]:
    """Hosts one checkpoint by torch ("bert"), by ONNX Runtime ("graphs") and in bf16 ("half"), its 8-bit graphs ("integers"),
    and what is left of it with one layer, which is not saved ("one-layer")."""
    source = str(checkpoints["bert"])
    with launched(loop, model=[f"bert={source}"], cache_folder=export_cache) as host:
        load(host, model_id="graphs", source=source, runtime=ONNX, timeout=LOAD_SECONDS)
        load(host, model_id="half", source=source, precision=BF16, runtime=TORCH, timeout=LOAD_SECONDS)
        for name, steps in {"one-layer": [{"layers": {"layers": [0]}}], "integers": [{"onnx": {}}, {"int8": {}}]}.items():
            call(host, "CompressModel", model="models/bert", model_id=name, steps=steps, timeout=LOAD_SECONDS)
        yield host


def start(host: Host, *models: str, **fields: Any) -> Any:
    measurement = benchmark.Measurement(**(BRIEF | fields.pop("measurement", {})))
    request = benchmark.BenchmarkModelsRequest(models=[f"models/{name}" for name in models], measurement=measurement, **fields)
    stub: Any = benchmark_pb2_grpc.BenchmarkServiceStub(host.channel)
    return stub.BenchmarkModels(request, timeout=LOAD_SECONDS)


def report(host: Host, *models: str, **fields: Any) -> benchmark.BenchmarkReport:
    *_, last = start(host, *models, **fields)
    assert isinstance(last.report, benchmark.BenchmarkReport)
    return last.report


def ran(found: benchmark.BenchmarkReport) -> list[tuple[int, int, bool]]:
    """Library and number format of each model, and whether it is a copy."""
    return [(one.provenance.runtime, one.provenance.precision, one.copied) for one in found.models]


def speedups(found: benchmark.BenchmarkReport, index: int) -> list[benchmark.Ratio]:
    (speed,) = found.models[index].speeds
    return [speed.latency_speedup, speed.throughput_speedup]


class Copies:
    """Counts the encoders that came since: others may go meanwhile, those of an earlier test among them."""

    def __init__(self) -> None:
        self._before = WeakSet(self._encoders())

    @property
    def count(self) -> int:
        return sum(one not in self._before for one in self._encoders())

    @staticmethod
    def _encoders() -> list[Any]:
        gc.collect()
        return [one for one in gc.get_objects() if type(one) in (OnnxEncoder, TorchEncoder)]


@pytest.mark.parametrize(("baseline", "runtime"), [("bert", TORCH), pytest.param("graphs", ONNX, marks=pytest.mark.slow)])
def test_all_models_run_by_the_library_of_the_baseline(mixed: Host, baseline: str, runtime: int) -> None:
    """Also what is in no folder any more, and what is loaded in another number format."""
    others = [name for name in ("bert", "graphs", "half", "one-layer") if name != baseline]
    found = report(mixed, baseline, *others, agreement_texts=SENTENCES[:4])
    assert {(how, precision) for how, precision, _ in ran(found)} == {(runtime, FP32)}
    loaded = {"bert": (TORCH, FP32), "graphs": (ONNX, FP32), "half": (TORCH, BF16), "one-layer": (TORCH, FP32)}
    for name, one in zip([baseline, *others], found.models, strict=True):
        about = get(mixed, f"models/{name}")
        assert (about.runtime, about.precision) == (one.loaded_runtime, one.loaded_precision) == loaded[name]
        assert one.copied == (loaded[name] != (runtime, FP32))
        assert one.provenance.weights_digest == about.weights_digest
        assert one.weight_bytes == about.weight_bytes
    for index in range(1, len(found.models)):
        assert found.models[index].compared_with == found.models[0].provenance
        assert [ratio.caveat for ratio in speedups(found, index)] == ["", ""]
    assert not found.models[0].HasField("compared_with")
    assert not found.references
    assert not [warning for warning in found.warnings if "processes" not in warning]
    assert found.models[1].agreement.top_1 == 1


def test_what_cannot_run_as_the_baseline_is_compared_with_the_baseline_in_its_form(mixed: Host) -> None:
    found = report(mixed, "bert", "integers", "one-layer")
    assert ran(found) == [(TORCH, FP32, False), (ONNX, INT8, False), (TORCH, FP32, False)]
    (reference,) = found.references
    assert (reference.provenance.model, reference.provenance.runtime, reference.copied) == ("models/bert", ONNX, True)
    assert found.models[1].compared_with == reference.provenance
    assert found.models[2].compared_with == found.models[0].provenance
    (speed,), (base,) = found.models[1].speeds, reference.speeds
    assert speed.latency_speedup.value == pytest.approx(base.p50_seconds / speed.p50_seconds)
    assert speed.latency_speedup.caveat == ""
    assert not base.HasField("latency_speedup") and not reference.HasField("compared_with")


@pytest.mark.parametrize("exact", [True, False])
def test_the_report_says_where_integers_gain_no_time(mixed: Host, monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    monkeypatch.setattr(integer_speed, "adds_bytes_exactly", lambda: exact)
    found = report(mixed, "bert", "integers", runtime=ONNX)
    assert [warning for warning in found.warnings if LITTLE_GAIN in warning] == (
        [] if exact else [f"models/integers: {LITTLE_GAIN}"]
    )
    assert ran(found) == [(ONNX, FP32, True), (ONNX, INT8, False)]
    assert not found.references
    failure = refusal(mixed, "BenchmarkModels", code=UNSUPPORTED, models=["models/integers", "models/bert"], runtime=TORCH)
    assert failure.info.reason == "RUNTIME_UNSUPPORTED"
    assert "as_loaded" in failure.message


def test_as_loaded_the_ratio_says_other_runtime(mixed: Host) -> None:
    found = report(mixed, "bert", "graphs", "half", "one-layer", as_loaded=True)
    assert ran(found) == [(TORCH, FP32, False), (ONNX, FP32, False), (TORCH, BF16, False), (TORCH, FP32, False)]
    assert [[ratio.caveat for ratio in speedups(found, index)] for index in (1, 2, 3)] == [
        ["other runtime"] * 2,
        ["other precision"] * 2,
        ["", ""],
    ]
    assert [warning.partition(" than the baseline")[0] for warning in found.warnings if " than the baseline" in warning] == [
        "models/graphs: other runtime",
        "models/half: other precision",
    ]


def test_copies_are_bounded(launch: Callable[..., Host], checkpoints: dict[str, Path], export_cache: Path) -> None:
    """What would be beyond the bound runs as it is loaded, and the report says so."""
    source = str(checkpoints["bert"])
    host = launch(model=[f"bert={source}"], cache_folder=export_cache, benchmark_memory_bytes=1000)
    load(host, model_id="graphs", source=source, runtime=ONNX, timeout=LOAD_SECONDS)
    found = report(host, "bert", "graphs")
    assert ran(found) == [(TORCH, FP32, False), (ONNX, FP32, False)]
    assert [ratio.caveat for ratio in speedups(found, 1)] == ["other runtime"] * 2
    assert any("--benchmark-memory-bytes" in warning for warning in found.warnings)


def test_a_model_whose_source_is_gone_runs_as_it_is_loaded(
    launch: Callable[..., Host], checkpoints: dict[str, Path], export_cache: Path, tmp_path: Path
) -> None:
    """It is compared with the baseline in its own form, as that can be had."""
    passing = shutil.copytree(checkpoints["bert"], tmp_path / "passing")
    host = launch(model=[f"bert={checkpoints['bert']}"], cache_folder=export_cache)
    load(host, model_id="graphs", source=str(passing), runtime=ONNX, timeout=LOAD_SECONDS)
    shutil.rmtree(passing)
    found = report(host, "bert", "graphs")
    assert ran(found) == [(TORCH, FP32, False), (ONNX, FP32, False)]
    assert found.models[1].compared_with == found.references[0].provenance
    assert speedups(found, 1)[0].caveat == ""
    assert any(warning.startswith("models/graphs ran as it is loaded: ") for warning in found.warnings)


def test_copies_go_when_it_is_over_and_when_it_is_cancelled(mixed: Host) -> None:
    copies = Copies()
    report(mixed, "bert", "graphs", "one-layer", agreement_texts=SENTENCES[:4])
    wait_until(lambda: not copies.count, "the copies of a benchmark that ended are gone")
    stream = start(mixed, "bert", "graphs", measurement={"min_runs": 100_000, "min_seconds": 3600, "max_seconds": 3600})
    for event in stream:
        if event.progress.stage.startswith("latency"):
            break
    assert copies.count == 1
    stream.cancel()
    wait_until(lambda: not copies.count, "the copies of a cancelled benchmark are gone")
    assert report(mixed, "bert", "graphs").models


def test_one_benchmark_with_copies_at_a_time(mixed: Host) -> None:
    """Others that need some wait before they make them; those that need none only wait for the device."""
    copies = Copies()
    with held(mixed, "models/bert") as gate:
        first = start(mixed, "bert", "graphs")
        wait_until(lambda: gate.arrived, "the first has begun")
        second, third = start(mixed, "bert", "graphs"), start(mixed, "bert", "one-layer")
        assert next(second).progress.stage == "waiting for another benchmark that builds models"
        assert next(third).progress.stage == "waiting for cpu"
        assert copies.count == 1
        gate.let_through()
        for stream in (first, second, third):
            *_, last = stream
            assert last.report.models


@pytest.mark.parametrize(("share", "warned"), [(0.63, True), (0.02, False)])
def test_a_busy_machine_is_a_warning(mixed: Host, monkeypatch: pytest.MonkeyPatch, share: float, warned: bool) -> None:
    monkeypatch.setattr(LoadMeter, "share", share)
    found = report(mixed, "bert")
    told = [warning for warning in found.warnings if warning.startswith("other processes took 63 % of the processor")]
    assert bool(told) == warned
    assert found.machine.other_load == pytest.approx(share)
