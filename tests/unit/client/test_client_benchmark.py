"""Benchmarks are asked for as written, and reports and rows are read whole."""

import csv
import dataclasses
import io
import json
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.benchmark import replies, requests
from bertscope.questions.benchmark.replies import StudiesAssembler
from bertscope.questions.benchmark.requests import Measuring
from bertscope.v1 import ablation_pb2, benchmark_pb2, common_pb2, model_pb2
from bertscope.values.models import read_model
from bertscope_workbench.command.views import benchmark_files

from tests.support import reports

UNSET: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Measuring)) | {"others": "wait", "seed": 0}


def ask(models: Any = "a", **arguments: Any) -> benchmark_pb2.BenchmarkModelsRequest:
    measuring = Measuring(**{name: arguments.pop(name, value) for name, value in UNSET.items()})
    defaults = dict.fromkeys(("baseline", "agreement_texts", "top_k", "objective"))
    return requests.benchmark_models(models, measuring, **(defaults | arguments))


def ask_studies(systems: Any = None, heavy: Any = False, runtime: Any = None) -> benchmark_pb2.BenchmarkStudiesRequest:
    return requests.benchmark_studies(systems, Measuring(**UNSET), heavy=heavy, runtime=runtime)


def read(message: benchmark_pb2.BenchmarkReport) -> bertscope.BenchmarkReport:
    event = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    assert isinstance(event, bertscope.BenchmarkReport)
    return event


REPORT = reports.report(
    reports.model("big"),
    reports.model("same", 1.01),
    reports.model("small", 2.0, kept=0.9, parameters=50_000_000, compression=4, steps=("layers", "int8")),
)


def test_what_is_left_out_is_unset():
    request = ask()
    assert (list(request.models), request.baseline, request.top_k) == (["models/a"], "", 0)
    assert not request.HasField("objective")
    assert not request.embed
    measurement = request.measurement
    assert list(measurement.lengths) == list(measurement.texts) == list(measurement.batch_sizes) == []
    assert not measurement.HasField("min_seconds")
    assert not measurement.HasField("max_seconds")
    assert not measurement.bootstrap.HasField("confidence")
    assert measurement.others == benchmark_pb2.OTHERS_WAIT
    assert (list(ask_studies().systems), ask_studies().heavy, ask_studies().runtime) == ([], False, 0)


def test_every_argument_is_sent():
    small = read_model(model_pb2.Model(name="models/small"))
    request = ask(
        ["big", small],
        baseline=small,
        lengths=np.array([8, 16]),
        batch_sizes=4,
        min_runs=3,
        min_seconds=0,
        max_seconds=2.5,
        others="refuse",
        resamples=200,
        seed=7,
        confidence=0.9,
        agreement_texts="a [MASK]",
        top_k=3,
        embed=True,
        objective=bertscope.MinimalPairs([("a", "b")]),
    )
    measurement = request.measurement
    assert (list(request.models), request.baseline) == (["models/big", "models/small"], "models/small")
    assert (list(measurement.lengths), list(measurement.batch_sizes)) == ([8, 16], [4])
    assert (measurement.min_runs, measurement.min_seconds, measurement.max_seconds) == (3, 0, 2.5)
    assert measurement.HasField("min_seconds")
    assert measurement.others == benchmark_pb2.OTHERS_REFUSE
    assert (measurement.bootstrap.resamples, measurement.bootstrap.seed, measurement.bootstrap.confidence) == (200, 7, 0.9)
    assert (list(request.agreement_texts), request.top_k, request.embed) == (["a [MASK]"], 3, True)
    assert request.objective.WhichOneof("kind") == "minimal_pairs"
    studies = ask_studies("DistilBERT", heavy=True, runtime="onnx")
    assert (list(studies.systems), studies.heavy, studies.runtime) == (["DistilBERT"], True, common_pb2.RUNTIME_ONNX)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ask([]), "models: is empty"),
        (lambda: ask(None), "models: must be names of models"),
        (lambda: ask(["a", None]), r"models\[1\]: must be the name of a model, not NoneType"),
        (lambda: ask(lengths=[]), "lengths: is empty"),
        (lambda: ask(lengths=[8], texts=["a"]), "lengths: must be left out with texts"),
        (lambda: ask(texts=[]), "texts: is empty"),
        (lambda: ask(batch_sizes=[1.5]), r"batch_sizes\[0\]: must be an integer"),
        (lambda: ask(min_runs=0), "min_runs: must be at least 1"),
        (lambda: ask(min_seconds="1"), "min_seconds: must be a number"),
        (lambda: ask(max_seconds=float("inf")), "max_seconds: must be finite"),
        (lambda: ask(others="stop"), "others: must be one of wait, refuse"),
        (lambda: ask(top_k=5), "top_k: goes with agreement_texts"),
        (lambda: ask(agreement_texts=["a"], top_k=0), "top_k: must be at least 1"),
        (lambda: ask(objective=bertscope.Divergence(["a"])), "objective: must not be a Divergence"),
        (lambda: ask(objective="loss"), "objective: must be made by"),
        (lambda: ask_studies([]), "systems: is empty"),
        (lambda: ask_studies(heavy=1), "heavy: must be True or False"),
        (lambda: ask_studies(runtime="tvm"), "runtime: must be one of auto, torch, onnx"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(make, message):
    with pytest.raises(bertscope.InvalidArgument, match=message):
        make()


def test_a_report_says_how_its_intervals_were_computed():
    message = benchmark_pb2.BenchmarkReport()
    message.CopyFrom(REPORT)
    message.bootstrap.MergeFrom(ablation_pb2.Bootstrap(resamples=200, seed=7, confidence=0.9))
    first, second = message.models[2].speeds[0].latency_speedup, message.models[2].speeds[0].throughput_speedup
    first.interval_method = ablation_pb2.INTERVAL_METHOD_HYBRID_WILSON
    second.no_interval = ablation_pb2.NO_INTERVAL_MEAN_NOT_POSITIVE
    found = read(message)
    assert found.bootstrap == bertscope.Bootstrap(resamples=200, seed=7, confidence=0.9)
    speed = found.models[2].speeds[0]
    assert (speed.latency_speedup.interval_method, speed.latency_speedup.no_interval) == ("hybrid_wilson", None)
    assert (speed.throughput_speedup.interval_method, speed.throughput_speedup.no_interval) == (None, "mean_not_positive")
    row = next(row for row in found.rows() if row["model"] == "models/small")
    assert (row["latency_speedup_interval_method"], row["throughput_speedup_no_interval"]) == (
        "hybrid_wilson",
        "mean_not_positive",
    )
    assert read(REPORT).bootstrap is None, "a server that does not say"


def test_a_report_is_read_whole():
    found = read(REPORT)
    assert (
        repr(found).splitlines()[0]
        == "<BenchmarkReport: models/big, models/same, models/small; baseline models/big, A fine CPU, 12.5 s>"
    )
    assert (found.lengths, found.metrics) == ((32, 128), ("accuracy", "loss"))
    assert (found.machine.cpu_flags, found.machine.other_load) == (("avx512f", "avx512_vnni"), 0.031)
    assert (found.disturbances.waited, found.disturbances.refused, found.seconds, found.cut_short) == (3, 1, 12.5, False)
    small = found.model("small")
    assert small is found.models[2] is found.model("models/small")
    assert (small.parameters, small.nonzero_parameters, small.compression) == (50_000_000, None, 4)
    assert small.memory_bytes == 120_000_000
    assert [step.step for step in small.steps] == ["layers", "int8"]
    assert small.speed(128).p50_seconds == 0.0064
    assert small.speed(32).latency_speedup == bertscope.Ratio(2.0, 1.9, 2.1, "above")
    assert small.speed(32).throughput_speedup.value == 4.0
    assert small.agreement == bertscope.Agreement(0.9, 0.45, 5, pytest.approx(0.1), 0, 1, 120)
    assert [(score.metric, score.retained.verdict) for score in small.scores] == [("accuracy", "below"), ("loss", "below")]
    with pytest.raises(KeyError, match=r"other is not among the models of the report: models/big, models/same, models/small"):
        found.model("other")
    with pytest.raises(KeyError, match=r"7 tokens are not among what was measured: 32, 128"):
        small.speed(7)


def test_the_baseline_is_compared_with_nothing():
    big = read(REPORT).models[0]
    assert (big.agreement, big.scores[0].retained) == (None, None)
    assert {(speed.latency_speedup, speed.throughput_speedup) for speed in big.speeds} == {(None, None)}


@pytest.mark.parametrize(
    ("verdict", "name", "distinguishable"),
    [(1, "above", True), (2, "below", True), (3, "not_distinguishable", False), (0, "unspecified", False), (9, "9", False)],
)
def test_only_a_verdict_makes_a_difference(verdict, name, distinguishable):
    message = reports.report(reports.model("a"), reports.model("b", 2.0))
    message.models[1].speeds[0].latency_speedup.verdict = verdict
    ratio = read(message).models[1].speeds[0].latency_speedup
    assert (ratio.verdict, ratio.distinguishable) == (name, distinguishable)


def test_numbers_that_are_not_zero_may_be_known():
    message = reports.report(reports.model("a"))
    message.models[0].nonzero_parameters = 0
    assert read(message).models[0].nonzero_parameters == 0


def test_events():
    progress = benchmark_pb2.BenchmarkProgress(stage="warming up", done=0.25)
    event = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(progress=progress))
    assert event == bertscope.BenchmarkProgress("warming up", 0.25)
    assert replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse()) is None


def test_a_report_without_its_baseline_is_invalid():
    message = reports.report(reports.model("a"))
    message.baseline = "models/b"
    with pytest.raises(bertscope.InvalidReply, match="baseline 'models/b' is not among its models"):
        read(message)


def test_a_row_for_each_model_and_length():
    rows = read(REPORT).rows()
    assert [(row["model"], row["baseline"], row["length"]) for row in rows] == [
        (f"models/{name}", name == "big", length) for name in ("big", "same", "small") for length in (32, 128)
    ]
    last = rows[-1]
    assert (last["latency_speedup"], last["latency_speedup_low"], last["latency_speedup_verdict"]) == (2.0, 1.9, "above")
    assert (last["steps"], last["k"], last["accuracy_retained"], last["runtime"]) == ("layers+int8", 5, 0.9, "torch")
    assert all(list(row) == list(rows[0]) for row in rows)
    frame = read(REPORT).to_pandas()
    assert list(frame.columns) == list(rows[0])
    assert frame["throughput_speedup"].tolist()[2:] == [2.02, 2.02, 4.0, 4.0]
    assert frame["latency_speedup"].isna().tolist() == [True, True, False, False, False, False]


STUDIES = (
    reports.study("DistilBERT (Sanh 2019a)", 1.9, compression="1.5", speedup="1.6"),
    reports.study("WaLDORf (Tian 2019)", why="has convolutional layers", compression="4.4"),
)


def assemble(*messages: benchmark_pb2.BenchmarkStudiesResponse) -> bertscope.StudyTable:
    assembler = StudiesAssembler(None)
    for message in messages:
        assembler.add(message)
    return assembler.end()


def response(**event: Any) -> benchmark_pb2.BenchmarkStudiesResponse:
    return benchmark_pb2.BenchmarkStudiesResponse(**event)


END = response(summary=reports.summary())


def test_rows_of_studies_make_a_table():
    heard = []
    assembler = StudiesAssembler(heard.append)
    assert assembler.add(response(progress=benchmark_pb2.BenchmarkProgress(stage="x", done=0.5))) is None
    assert assembler.add(response()) is None
    rows = [assembler.add(response(row=row)) for row in STUDIES]
    assert assembler.add(END) is None
    table = assembler.end()
    assert heard == [bertscope.BenchmarkProgress("x", 0.5)]
    assert table.studies == tuple(rows)
    assert repr(table).splitlines()[0] == "<StudyTable: 2 systems, 1 measured; A fine CPU>"
    measured, left_out = table.studies
    assert (measured.published.speedup, measured.measured.speed(32).latency_speedup.value) == ("1.6", 1.9)
    assert measured.baseline_measured.name == "models/BERT-base"
    assert (left_out.measured, left_out.baseline_measured, left_out.not_measured) == (None, None, "has convolutional layers")
    assert (table.lengths, table.summary.seconds) == ((32, 128), 99)
    frame = table.to_pandas()
    assert frame["system"].tolist() == ["DistilBERT (Sanh 2019a)"] * 2 + ["WaLDORf (Tian 2019)"]
    assert frame["published_compression"].tolist() == ["1.5", "1.5", "4.4"]
    assert frame["latency_speedup"].tolist()[:2] == [1.9, 1.9]
    assert frame["length"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "0 systems and no summary"),
        ([response(row=STUDIES[0])], "1 systems and no summary"),
        ([END, response(row=STUDIES[0])], "row of a benchmark after its summary"),
        ([END, END], "summary of a benchmark after its summary"),
        ([response(row=benchmark_pb2.StudyRow()), END], "both or neither of a measurement and a reason"),
    ],
)
def test_a_stream_that_breaks_the_contract_is_invalid(messages, message):
    with pytest.raises(bertscope.InvalidReply, match=message):
        assemble(*messages)


@pytest.mark.parametrize("measured", [read(REPORT), assemble(*(response(row=row) for row in STUDIES), END)])
def test_files_hold_the_rows(measured, tmp_path):
    for suffix in benchmark_files.FORMATS:
        benchmark_files.write(measured, tmp_path / f"a{suffix}")
    rows = measured.rows()
    table = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert [row["latency_speedup"] for row in table] == [
        "" if row["latency_speedup"] is None else str(row["latency_speedup"]) for row in rows
    ]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines == [dict(row) for row in rows]
    document = json.loads((tmp_path / "a.json").read_text())
    assert set(document) == {field.name for field in dataclasses.fields(measured)} | {"warnings"}
    assert next(iter(document)) == "warnings"
    markdown = (tmp_path / "a.md").read_text()
    assert markdown.startswith("# ")
    tables = [block for block in markdown.split("\n\n") if block.startswith("| ")]
    assert all(len({line.count(" | ") for line in block.splitlines()}) == 1 for block in tables)


def test_a_caveat_stands_beside_its_ratio_and_warnings_come_first(tmp_path):
    message = reports.report(
        reports.model("a"), reports.model("b", 2.0, caveat="other runtime"), warnings=["others took 63 % of the processor"]
    )
    message.references.append(reports.model("a", runtime=common_pb2.RUNTIME_ONNX))
    report = read(message)
    assert report.warnings == ("others took 63 % of the processor",)
    assert report.model("b").speed(32).latency_speedup.caveat == "other runtime"
    assert report.model("a").speed(32).latency_speedup is None
    assert [reference.provenance.runtime for reference in report.references] == ["onnx"]
    assert [(row["model"], row["runtime"], row["latency_speedup_caveat"]) for row in report.rows() if row["length"] == 32] == [
        ("models/a", "torch", None),
        ("models/b", "torch", "other runtime"),
        ("models/a", "onnx", None),
    ]
    benchmark_files.write(report, tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["warnings"] == ["others took 63 % of the processor"]
    assert document["models"][1]["speeds"][0]["throughput_speedup"]["caveat"] == "other runtime"


def test_how_models_run_is_asked_for():
    def ask(**fields: Any) -> benchmark_pb2.BenchmarkModelsRequest:
        given: dict[str, Any] = {"baseline": None, "agreement_texts": None, "top_k": None, "objective": None} | fields
        return requests.benchmark_models(["a"], Measuring(**UNSET), **given)

    assert (ask().as_loaded, ask().runtime) == (False, common_pb2.RUNTIME_UNSPECIFIED)
    assert ask(as_loaded=True).as_loaded
    assert ask(runtime="onnx").runtime == common_pb2.RUNTIME_ONNX
    with pytest.raises(bertscope.InvalidArgument, match="runtime: must be left out with as_loaded"):
        ask(as_loaded=True, runtime="torch")


def test_what_is_no_number_is_null_in_json(tmp_path):
    message = reports.report(reports.model("a"))
    message.models[0].compression = float("inf")
    benchmark_files.write(read(message), tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["models"][0]["compression"] is None
