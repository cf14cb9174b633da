"""BenchmarkModels through gRPC: what the report says, who waits meanwhile, and that the device always comes back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bertscope
import grpc
import numpy as np
import pytest
from bertscope.questions.ablation.requests import objective_message
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope.v1 import benchmark_pb2_grpc
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import model_pb2 as model
from bertscope_service.models import timed_runs as benchmark_runs

from tests.support.harness import CALL_SECONDS, Failure, Host, LoopThread, held, launched, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import Measurer, cloze_prompts, label_sets, labelled, masked_lm, rated, sweep
from tests.support.tiny import SENTENCES, TAGS, write_checkpoint

Request = benchmark.BenchmarkModelsRequest
Ratio = benchmark.Ratio
GOOD = cloze.FillMaskRequest(model="models/bert", texts=["The [MASK] sat."])
BRIEF = {"min_runs": 3, "min_seconds": 0.0, "lengths": [8], "batch_sizes": [1]}
WIDER = BRIEF | {"lengths": [8, 16], "batch_sizes": [1, 2, 4]}
ENDLESS = {"min_runs": 100_000, "min_seconds": 3600, "lengths": [8], "batch_sizes": [1]}
TEXTS = ["Paris is the capital of [MASK].", "The [MASK] sat on the [MASK].", *SENTENCES[3:9]]


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are warm after a few runs."""
    monkeypatch.setattr(benchmark_runs, "WARM_UP_SECONDS", 0.001)


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


def refusal(host: Host, code: grpc.StatusCode, *models: str, **fields: Any) -> Failure:
    with refused(code) as failures:
        list(start(host, *models, **fields))
    return failures[0]


def measuring(stream: Any) -> None:
    """Come back when the device is lent."""
    for event in stream:
        if event.progress.stage.startswith("latency"):
            return
    raise AssertionError("the stream ended")


def waiting(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


def runs_again(host: Host) -> None:
    """The device is back: a call is answered."""
    assert len(host.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results) == 1


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
        about = bench.models.GetModel(model.GetModelRequest(name=one.provenance.model), timeout=CALL_SECONDS).model
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


@pytest.mark.parametrize("kind", ["topics", pytest.param("tagger", marks=pytest.mark.slow)])
def test_agreement_is_what_classify_says(
    launch: Callable[..., Host], sorters: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """Of two models with the same labels: of texts, of which any number holds, or of words."""
    settings: dict[str, dict[str, Any]] = {
        "sorter": {"labels": 3},
        "topics": {"labels": 3, "problem": "multi_label_classification"},
        "tagger": {"task": "tokens", "labels": len(TAGS), "names": TAGS},
    }
    other = write_checkpoint("bert", tmp_path / "other", seed=1, **settings[kind])
    host = launch(model=[f"one={sorters[kind]}", f"other={other}"])
    _, report = finish(start(host, "one", "other", agreement_texts=SENTENCES, top_k=2))
    inputs = [common.TextInput(text=text) for text in SENTENCES]
    one, two = (
        np.concatenate(Measurer(host, f"models/{name}", folder).distributions(inputs))
        for name, folder in (("one", sorters[kind]), ("other", other))
    )
    best, others = np.argsort(-one, axis=1)[:, :2], np.argsort(-two, axis=1)[:, :2]
    agreement = report.models[1].agreement
    assert agreement.places == len(one)
    assert agreement.top_1 == pytest.approx(np.mean(best[:, 0] == others[:, 0]))
    assert agreement.top_k == pytest.approx(np.mean((best[:, :, None] == others[:, None]).sum(axis=(1, 2)) / 2))
    assert agreement.divergence == pytest.approx((np.exp(one) * (one - two)).sum(axis=1).mean(), rel=1e-4)
    assert agreement.divergence_low < agreement.divergence < agreement.divergence_high


OF_HEADS: dict[str, Any] = {
    "rater": rated(),
    "topics": label_sets(),
    "tagger": bertscope.LabelledWords(
        [
            bertscope.ProbeText(text, [("B-PER", 0, 3), ("O", 4, 7)])
            for text in ("The cat sat.", "The old house.", "Her cat ran.")
        ]
    ),
    "answerer": bertscope.LabelledQuestions([("Who sat?", "The cat sat.", "cat"), ("What?", "The old house.", "old house")]),
}


@pytest.mark.parametrize("name", ["rater", pytest.param("topics", marks=pytest.mark.slow)])
def test_a_smaller_model_keeps_its_head_and_is_compared(
    launch: Callable[..., Host], sorters: dict[str, Path], name: str
) -> None:
    """Scores are those of a sweep's untouched model; agreement is measured where there is a distribution."""
    host = launch(model=[f"{name}={sorters[name]}"])
    kept = compression.CompressionStep(layers=compression.LayerSelection(layers=[0, 1, 3]))
    request = model.CompressModelRequest(model=f"models/{name}", model_id="small", steps=[kept])
    *_, made = host.models.CompressModel(request, timeout=CALL_SECONDS)
    whole, small = (host.models.GetModel(model.GetModelRequest(name=one)).model for one in (f"models/{name}", "models/small"))
    assert (made.model.layers, list(small.labels)) == (3, list(whole.labels))
    assert list(small.capabilities) == list(whole.capabilities)
    given = OF_HEADS[name]
    objective = given if isinstance(given, ablation.Objective) else objective_message(given)
    _, report = finish(start(host, name, "small", objective=objective))
    for one in ("models/" + name, "models/small"):
        (scores,) = (entry.scores for entry in report.models if entry.provenance.model == one)
        swept = sweep(host, model=one, objective=objective, scope=ablation.SweepHeadsRequest.SCOPE_EVERY_LAYER).start.baseline
        assert [(score.metric, score.value) for score in scores] == [
            (score.metric, pytest.approx(score.score, abs=1e-6)) for score in swept
        ]
    if name in ("topics", "tagger"):
        _, report = finish(start(host, name, "small", agreement_texts=["The cat sat.", "She plays."]))
        assert 0 <= report.models[1].agreement.top_1 <= 1 and report.models[1].agreement.divergence > 0
    else:
        assert refusal(host, UNIMPLEMENTED, name, "small", agreement_texts=["The cat sat."]).info.reason == "NO_DISTRIBUTION"


def test_agreement_is_what_fill_mask_says(launch: Callable[..., Host], checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """At every mask, over the whole vocabulary; and scores are shares of the baseline's."""
    other = write_checkpoint("bert", tmp_path / "other", seed=1)
    host = launch(model=[f"one={checkpoints['bert']}", f"other={other}"])
    texts = [f"The {word} is in the [MASK] and the [MASK]." for word in ("cat", "dog", "man", "house")]
    _, report = finish(start(host, "one", "other", agreement_texts=texts, objective=masked_lm(SENTENCES)))
    size = host.models.GetModel(model.GetModelRequest(), timeout=CALL_SECONDS).model.vocabulary_size
    top_1 = top_k = divergence = 0.0
    replies = [
        host.cloze.FillMask(cloze.FillMaskRequest(model=f"models/{name}", texts=texts, top_k=size), timeout=CALL_SECONDS)
        for name in ("one", "other")
    ]
    for text in range(len(texts)):
        for mask in range(2):
            one, two = (reply.results[text].masks[mask].predictions for reply in replies)
            logs = {found.piece_ids[0]: found.log_probability for found in two}
            best = [[found.piece_ids[0] for found in likeliest[:5]] for likeliest in (one, two)]
            top_1 += best[0][0] == best[1][0]
            top_k += len(set(best[0]) & set(best[1])) / 5
            divergence += sum(
                math.exp(found.log_probability) * (found.log_probability - logs[found.piece_ids[0]]) for found in one
            )
    agreement = report.models[1].agreement
    assert (agreement.places, agreement.k) == (8, 5)
    assert (agreement.top_1, agreement.top_k) == pytest.approx((top_1 / 8, top_k / 8))
    assert agreement.divergence == pytest.approx(divergence / 8, rel=1e-4)
    losses = [one.scores[0].value for one in report.models]
    assert report.models[1].scores[0].retained.value == pytest.approx(losses[0] / losses[1])


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
    runs_again(bench)


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


@pytest.mark.slow
def test_cancelling_gives_the_device_back(bench: Host) -> None:
    stream = start(bench, "bert", "twin", measurement=ENDLESS | {"max_seconds": 3600})
    measuring(stream)
    stream.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert caught.value.code() is grpc.StatusCode.CANCELLED
    runs_again(bench)
    wait_until(lambda: bench.metric("bertscope_requests_in_flight", method="BenchmarkModels") == 0, "it is over")
    entry = bench.server.registry.find("models/bert")
    assert entry.users == 0


def test_max_seconds_cuts_it_short(bench: Host) -> None:
    _, report = finish(start(bench, "bert", "twin", measurement=ENDLESS | {"max_seconds": 0.2}))
    assert report.cut_short
    assert all(speed.runs >= 3 and speed.batches >= 3 for one in report.models for speed in one.speeds)


INVALID, UNIMPLEMENTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED


def test_what_can_not_be_measured_is_refused_before_any_work(bench: Host) -> None:
    before = bench.metric("bertscope_batch_rows_sum", device="cpu")
    failure = refusal(bench, INVALID, "bert", "twin", agreement_texts=["The cat.", "🂡🂡"])
    assert (failure.info.reason, failure.fields) == ("NO_WORD", ["agreement_texts[1]"])
    assert bench.metric("bertscope_batch_rows_sum", device="cpu") == before
    runs_again(bench)
