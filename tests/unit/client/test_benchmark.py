"""Benchmarks are asked for as written, and reports and rows are read whole."""

from functools import partial
from typing import Any

import bertscope
import numpy as np
from bertscope.questions.benchmark import messages as replies
from bertscope.questions.benchmark.messages import StudiesAssembler
from bertscope.v1 import ablation_pb2, benchmark_pb2, common_pb2, model_pb2
from bertscope.values.models import read_model
from bertscope_workbench.command.views import benchmark_files

from tests.support import reports
from tests.support.broken_replies import refusals
from tests.support.sent_requests import sent


def ask(models: Any = "a", **arguments: Any) -> Any:
    return sent("benchmark_models", models=models, **arguments)


ask_studies = partial(sent, "benchmark_studies")


def read(message: benchmark_pb2.BenchmarkReport) -> bertscope.BenchmarkReport:
    event = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    assert isinstance(event, bertscope.BenchmarkReport)
    return event


REPORT = reports.report(
    reports.model("big", lengths=(32,)),
    reports.model(
        "small",
        2.0,
        kept=0.9,
        parameters=50_000_000,
        compression=4,
        steps=("layers", "int8"),
        caveat="other runtime",
        lengths=(32,),
    ),
    warnings=["others took 63 % of the processor"],
)
REPORT.references.append(reports.model("big", runtime=common_pb2.RUNTIME_ONNX, lengths=(32,)))
REPORT.bootstrap.MergeFrom(ablation_pb2.Bootstrap(resamples=200, seed=7, confidence=0.9))
REPORT.models[0].nonzero_parameters = 0
for ratio, method, why, verdict in zip(
    (REPORT.models[1].speeds[0].latency_speedup, REPORT.models[1].speeds[0].throughput_speedup),
    (ablation_pb2.INTERVAL_METHOD_HYBRID_WILSON, 0),
    (0, ablation_pb2.NO_INTERVAL_MEAN_NOT_POSITIVE),
    (1, 9),
    strict=True,
):
    ratio.interval_method, ratio.no_interval, ratio.verdict = method, why, verdict


def test_requests(stored) -> None:
    small = read_model(model_pb2.Model(name="models/small"))
    bounds = {"min_runs": 3, "min_seconds": 0, "max_seconds": 2.5, "others": "refuse"}
    interval = {"resamples": 200, "seed": 7, "confidence": 0.9}
    lost = {"agreement_texts": "a [MASK]", "top_k": 3, "embed": True, "objective": bertscope.MinimalPairs([("a", "b")])}
    lengths = {"lengths": np.array([8, 16]), "batch_sizes": 4}
    stored(
        bare=ask(),
        whole=ask(["big", small], baseline=small, **lengths, **bounds, **interval, **lost),
        running=[ask(as_loaded=True), ask(runtime="onnx")],
        studies=[ask_studies(), ask_studies(systems="DistilBERT", heavy=True, runtime="onnx")],
        refused=[
            lambda: ask([]),
            lambda: ask(["a", None]),
            lambda: ask(lengths=[8], texts=["a"]),
            lambda: ask(top_k=5),
            lambda: ask(objective=bertscope.Divergence(["a"])),
            lambda: ask(as_loaded=True, runtime="torch"),
        ],
    )


def test_a_report(stored, tmp_path) -> None:
    report = read(REPORT)
    stored(
        report=report,
        found=[report.model("small").name, lambda: report.model("other"), lambda: report.model("small").speed(7)],
        files=files_of(report, tmp_path),
        broken=refusals(lambda messages: read(*messages), REPORT),
    )


def files_of(measured, folder) -> str:
    """All files of a report but its page and Parquet, as they are written."""
    texts = []
    for suffix in [suffix for suffix in benchmark_files.FORMATS if suffix not in (".html", ".parquet")]:
        benchmark_files.write(measured, folder / f"a{suffix}")
        texts.append(f"-- {suffix}\n{(folder / f'a{suffix}').read_text()}")
    return "\n".join(texts)


def test_studies(stored, tmp_path) -> None:
    """A row for each system, measured or not; what is no number is null in JSON."""
    measured = reports.study("DistilBERT (Sanh 2019a)", 1.9, compression="1.5", speedup="1.6")
    measured.measured.compression = float("inf")
    messages = [
        benchmark_pb2.BenchmarkStudiesResponse(progress=benchmark_pb2.BenchmarkProgress(stage="x", done=0.5)),
        benchmark_pb2.BenchmarkStudiesResponse(row=measured),
        benchmark_pb2.BenchmarkStudiesResponse(
            row=reports.study("WaLDORf (Tian 2019)", why="has convolutional layers", compression="4.4")
        ),
        benchmark_pb2.BenchmarkStudiesResponse(summary=reports.summary()),
    ]
    heard: list[Any] = []

    def assembled(messages) -> bertscope.StudyTable:
        assembler = StudiesAssembler(heard.append)
        for message in messages:
            assembler.add(message)
        return assembler.end()

    table = assembled(messages)
    stored(
        heard=heard[:1],
        table=table,
        files=files_of(table, tmp_path),
        broken=[
            lambda: assembled(messages[:2]),
            lambda: assembled([*messages, messages[2]]),
            lambda: assembled([*messages, messages[3]]),
            lambda: assembled([benchmark_pb2.BenchmarkStudiesResponse(row=benchmark_pb2.StudyRow()), messages[3]]),
            replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse()),
        ],
    )
