"""BenchmarkModels through gRPC: what the report says, who waits meanwhile, and that the device always comes back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import transformers
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope.v1 import benchmark_pb2_grpc
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common

from tests.support.calls import call, get
from tests.support.harness import CALL_SECONDS, Failure, Host, LoopThread, held, launched, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import Measurer, cloze_prompts, label_sets, labelled, rated, sweep
from tests.support.tiny import SENTENCES, TAGS, write_checkpoint

Request = benchmark.BenchmarkModelsRequest
Ratio = benchmark.Ratio
GOOD = cloze.FillMaskRequest(model="models/bert", texts=["The [MASK] sat."])
BRIEF = {"min_runs": 3, "min_seconds": 0.0, "lengths": [8], "batch_sizes": [1]}
WIDER = BRIEF | {"lengths": [8, 16], "batch_sizes": [1, 2, 4]}
ENDLESS = {"min_runs": 100_000, "min_seconds": 3600, "lengths": [8], "batch_sizes": [1]}
pytestmark = pytest.mark.usefixtures("short_warm_up")
TEXTS = ["Paris is the capital of [MASK].", "The [MASK] sat on the [MASK].", *SENTENCES[3:9]]


@pytest.fixture(scope="module")
def bench(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert, the same once more as models/twin, others of other kinds, and two classifiers of different labels."""
    folders = {"bert": checkpoints["bert"], "twin": checkpoints["bert"], "roberta": checkpoints["roberta"]}
    folders |= {"headless": checkpoints["headless"], "sorter": sorters["sorter"], "distilled": sorters["distilled"]}
    models = [f"{name}={folder}" for name, folder in folders.items()]
    with launched(loop, model=models) as running:
        yield running


def start(host: Host, *models: str, timeout: float | None = granted(60), others: int = 0, **fields: Any) -> Any:
    measurement = benchmark.Measurement(**fields.pop("measurement", BRIEF), others=others)
    names = [f"models/{name}" for name in models]
    stub: Any = benchmark_pb2_grpc.BenchmarkServiceStub(host.channel)
    return stub.BenchmarkModels(Request(models=names, measurement=measurement, **fields), timeout=timeout)


def finish(stream: Any) -> tuple[list[benchmark.BenchmarkProgress], benchmark.BenchmarkReport]:
    """All progress, and the report, which comes once and last."""
    *events, last = list(stream)
    assert all(event.WhichOneof("event") == "progress" for event in events)
    assert last.WhichOneof("event") == "report"
    return [event.progress for event in events], last.report


def measuring(stream: Any) -> None:
    """Come back when the device is lent."""
    for event in stream:
        if event.progress.stage.startswith("latency"):
            return
    raise AssertionError("the stream ended")


def waiting(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


def test_the_report_of_a_model_and_its_twin(bench: Host) -> None:
    losses = {"agreement_texts": TEXTS, "objective": cloze_prompts(), "top_k": 7}
    stream = start(bench, "bert", "twin", measurement=WIDER, baseline="models/twin", **losses)
    progress, report = finish(stream)
    assert [event.done for event in progress] == sorted(event.done for event in progress)
    stages = [event.stage for event in progress]
    assert {"latency at 8 tokens", "throughput at 16 tokens", "agreement", "scores"} <= set(stages)
    assert all(0 <= event.done <= 1 for event in progress)
    assert report.baseline == "models/twin"
    assert not report.cut_short
    assert (report.disturbances.waited, report.disturbances.refused) == (0, 0)
    machine = report.machine
    assert machine.cpu and machine.system and machine.cores >= 1 and machine.threads == 1
    assert machine.memory_bytes > 1 << 30 and 0 <= machine.other_load <= 1 and not machine.gpus
    bert, twin = report.models
    assert [one.provenance.model for one in report.models] == ["models/bert", "models/twin"]
    for one in report.models:
        about = get(bench, one.provenance.model)
        assert (one.parameters, one.weight_bytes) == (about.parameters, about.weight_bytes)
        assert one.provenance.weights_digest == about.weights_digest
        assert one.resident_bytes >= 4 * one.parameters
        assert one.compression == 1
        assert [speed.length for speed in one.speeds] == [8, 16]
        for speed in one.speeds:
            assert 0 < speed.p50_seconds <= speed.p90_seconds <= speed.p95_seconds <= speed.p99_seconds
            assert speed.runs >= 3 and speed.batches >= 3 and speed.best_batch in (1, 2, 4) and speed.throughput > 0
        assert [score.metric for score in one.scores] == [
            ablation.METRIC_ACCURACY,
            ablation.METRIC_RECIPROCAL_RANK,
            ablation.METRIC_LOSS,
        ]
    for speed, base in zip(bert.speeds, twin.speeds, strict=True):
        assert speed.latency_speedup.value == pytest.approx(base.p50_seconds / speed.p50_seconds)
        assert speed.throughput_speedup.value == pytest.approx(speed.throughput / base.throughput)
        for ratio in (speed.latency_speedup, speed.throughput_speedup):
            assert 0 < ratio.low <= ratio.value <= ratio.high
            assert ratio.interval_method == ablation.INTERVAL_METHOD_EXPANDED_PERCENTILE
            above, below = ratio.verdict == Ratio.VERDICT_ABOVE, ratio.verdict == Ratio.VERDICT_BELOW
            assert (above, below) == (ratio.low > 1, ratio.high < 1)
        assert not base.HasField("latency_speedup") and not base.HasField("throughput_speedup")
    agreement = bert.agreement
    assert not twin.HasField("agreement")
    assert (agreement.top_1, agreement.top_k, agreement.k, agreement.divergence) == (1, 1, 7, 0)
    assert (agreement.divergence_low, agreement.divergence_high) == (0, 0)
    assert agreement.places >= len(TEXTS) + 1
    assert not any(score.HasField("retained") for score in twin.scores)
    for score, base in zip(bert.scores, twin.scores, strict=True):
        assert score.value == pytest.approx(base.value)
        if base.value:
            assert score.retained.value == pytest.approx(1)
            assert score.retained.verdict == Ratio.VERDICT_NOT_DISTINGUISHABLE
            assert bool(score.retained.interval_method) != bool(score.retained.no_interval)
    assert report.bootstrap == ablation.Bootstrap(resamples=1000, seed=0, confidence=0.95)


def test_sizes_are_compared_in_the_formats_that_models_run_in(loop: LoopThread, checkpoints: dict[str, Path], tmp_path: Path):
    """Files of one model hold 2 bytes a number, those of the other 4; both run in float32."""
    half = tmp_path / "half"
    transformers.AutoModelForMaskedLM.from_pretrained(checkpoints["bert"]).half().save_pretrained(half)
    transformers.AutoTokenizer.from_pretrained(checkpoints["bert"]).save_pretrained(half)
    with launched(loop, model=[f"bert={checkpoints['bert']}", f"half={half}"]) as host:
        _, report = finish(start(host, "half", "bert"))
    half_report, bert = report.models
    assert half_report.weight_bytes < 0.6 * bert.weight_bytes
    assert bert.compression == pytest.approx(half_report.weight_bytes / bert.weight_bytes)
    assert bert.size_ratio == half_report.size_ratio == 1


def test_texts_are_all_run_and_classifiers_are_compared_over_their_labels(bench: Host) -> None:
    texts = [*SENTENCES, *SENTENCES[:3]]
    measurement = {"min_runs": 3, "min_seconds": 0.0, "batch_sizes": [2, 4], "texts": texts}
    stream = start(bench, "sorter", measurement=measurement, agreement_texts=TEXTS, objective=labelled())
    _, report = finish(stream)
    (sorter,) = report.models
    (speed,) = sorter.speeds
    assert speed.length == 0
    assert speed.runs >= len(texts)
    assert speed.batches * speed.best_batch >= len(texts)
    assert not sorter.HasField("agreement")
    assert sorter.scores[0].metric == ablation.METRIC_ACCURACY


SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {},
    "topics": {"labels": 3, "problem": "multi_label_classification"},
    "tagger": {"task": "tokens", "labels": len(TAGS), "names": TAGS},
}


@pytest.mark.parametrize("kind", ["bert", "topics", pytest.param("tagger", marks=pytest.mark.slow)])
def test_agreement_is_what_the_models_answer(
    launch: Callable[..., Host], checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """Of two models of one kind: of entries at masks, of labels of which any number holds, or of words."""
    first, other = (checkpoints | sorters)[kind], write_checkpoint("bert", tmp_path / "other", seed=1, **SETTINGS[kind])
    host = launch(model=[f"one={first}", f"other={other}"])
    texts = [f"The {word} is in the [MASK] and the [MASK]." for word in ("cat", "dog", "man", "house")]
    texts = texts if kind == "bert" else SENTENCES
    _, report = finish(start(host, "one", "other", agreement_texts=texts, top_k=2))
    inputs = [common.TextInput(text=text) for text in texts]
    one, two = (
        np.concatenate(Measurer(host, f"models/{name}", folder).distributions(inputs))
        for name, folder in (("one", first), ("other", other))
    )
    best, others = np.argsort(-one, axis=1)[:, :2], np.argsort(-two, axis=1)[:, :2]
    agreement = report.models[1].agreement
    assert (agreement.places, agreement.k) == (len(one), 2)
    assert agreement.top_1 == pytest.approx(np.mean(best[:, 0] == others[:, 0]))
    assert agreement.top_k == pytest.approx(np.mean((best[:, :, None] == others[:, None]).sum(axis=(1, 2)) / 2))
    assert agreement.divergence == pytest.approx((np.exp(one) * (one - two)).sum(axis=1).mean(), rel=1e-4)
    assert agreement.divergence_low < agreement.divergence < agreement.divergence_high


ANSWERED = {
    "questions": [
        {"input": {"question": "Who sat?", "passage": "The cat sat."}, "answers": [{"start": 4, "end": 7}]},
        {"input": {"question": "What?", "passage": "The old house."}, "answers": [{"start": 4, "end": 13}]},
    ]
}


@pytest.mark.parametrize("name", ["rater", *(pytest.param(name, marks=pytest.mark.slow) for name in ("topics", "answerer"))])
def test_a_smaller_model_keeps_its_head_and_is_compared(
    launch: Callable[..., Host], sorters: dict[str, Path], name: str
) -> None:
    """Scores are those of a sweep's untouched model, and retained as shares of the baseline's."""
    host = launch(model=[f"{name}={sorters[name]}"])
    steps = [{"layers": {"layers": [0, 1, 3]}}]
    made = call(host, "CompressModel", model=f"models/{name}", model_id="small", steps=steps)[-1].model
    whole, small = (get(host, one) for one in (f"models/{name}", "models/small"))
    assert (made.layers, list(small.labels)) == (3, list(whole.labels))
    assert list(small.capabilities) == list(whole.capabilities)
    objective = {"rater": rated(), "topics": label_sets(), "answerer": ablation.Objective(question_answering=ANSWERED)}[name]
    _, report = finish(start(host, name, "small", objective=objective))
    for one in report.models:
        fields = {"model": one.provenance.model, "objective": objective}
        swept = sweep(host, **fields, scope=ablation.SweepHeadsRequest.SCOPE_EVERY_LAYER).start.baseline
        assert [(score.metric, score.value) for score in one.scores] == [
            (score.metric, pytest.approx(score.score, abs=1e-6)) for score in swept
        ]
    losses = [one.scores[-1].value for one in report.models]
    assert report.models[1].scores[-1].retained.value == pytest.approx(losses[0] / losses[1])
    if name == "rater":
        with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
            list(start(host, name, "small", agreement_texts=["The cat sat."]))
        assert failures[0].info.reason == "NO_DISTRIBUTION"


def test_others_wait_or_their_deadline_ends_them(bench: Host) -> None:
    stream = start(bench, "bert", measurement=ENDLESS | {"max_seconds": 3600})
    measuring(stream)
    patient = bench.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
    wait_until(lambda: waiting(bench) == 1, "a call waits")
    with pytest.raises(grpc.RpcError) as caught:
        bench.cloze.FillMask(GOOD, timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: waiting(bench) == 1, "the late call is gone")
    assert not patient.done()
    stream.cancel()
    assert len(patient.result().results) == 1
    wait_until(lambda: bench.metric("bertscope_requests_in_flight", method="BenchmarkModels") == 0, "it is over")
    assert bench.server.registry.find("models/bert").users == 0


def test_waiting_and_refused_calls_are_counted(bench: Host) -> None:
    for others, counted in ((benchmark.OTHERS_WAIT, (1, 0)), (benchmark.OTHERS_REFUSE, (0, 1))):
        with held(bench, "models/bert") as gate:
            stream = start(bench, "bert", others=others)
            wait_until(lambda: gate.arrived, "a run has begun")
            call = bench.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
            if others == benchmark.OTHERS_WAIT:
                wait_until(lambda: waiting(bench) == 1, "it waits")
            else:
                failure = Failure(call.exception(CALL_SECONDS))
                assert (failure.code, failure.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "DEVICE_BUSY")
                assert failure.retry.retry_delay.ToMilliseconds() > 0
            gate.let_through()
            _, report = finish(stream)
        assert (report.disturbances.waited, report.disturbances.refused) == counted
        if others == benchmark.OTHERS_WAIT:
            assert len(call.result().results) == 1


def test_max_seconds_cuts_it_short(bench: Host) -> None:
    _, report = finish(start(bench, "bert", "twin", measurement=ENDLESS | {"max_seconds": 0.2}))
    assert report.cut_short
    assert any(warning.startswith("cut short") for warning in report.warnings)
    assert all(speed.runs >= 3 and speed.batches >= 3 for one in report.models for speed in one.speeds)
