"""What `bertscope benchmark` and `bertscope compress` print, and what Markdown says."""

import math
from dataclasses import replace
from typing import Any

import pytest
from bertscope import BenchmarkReport, Bootstrap, Machine, Ratio, StudyTable
from bertscope.questions.benchmark import replies
from bertscope.v1 import benchmark_pb2, common_pb2, compression_pb2, model_pb2
from bertscope.values.models import read_model
from bertscope_workbench.command.commands import compress
from bertscope_workbench.command.views import benchmark as benchmark_view
from bertscope_workbench.command.views import benchmark_files, benchmark_notes, benchmark_sheets, models

from tests.support import reports
from tests.support.benchmarked import report, studies
from tests.support.stored_outputs import printed

SMALL = reports.model(
    "small",
    2.0,
    kept=0.9,
    parameters=50_000_000,
    compression=4,
    precision=common_pb2.PRECISION_BFLOAT16,
    runtime=common_pb2.RUNTIME_ONNX,
    steps=("half", "onnx"),
)
REPORT = report(reports.model("big"), reports.model("same", 1.01), SMALL)
STUDIES = studies(
    reports.study("DistilBERT (Sanh 2019a)", 1.9, compression="1.5", speedup="1.6"),
    reports.study("IMP (Chen 2020)", 0.99, compression="1.4-2.5"),
    reports.study("WaLDORf (Tian 2019)", why="it has convolutional layers", compression="4.4"),
)


BUSY = "other processes took 63 % of the processor"


def shown(measured: BenchmarkReport | StudyTable, width: int = 120) -> str:
    show = benchmark_view.print_report if isinstance(measured, BenchmarkReport) else benchmark_view.print_studies
    return printed(show, measured, width=width)


def model(**fields: object) -> model_pb2.Model:
    return model_pb2.Model(
        name="models/x",
        architecture="bert",
        device="cpu",
        layers=2,
        heads=4,
        state=model_pb2.Model.STATE_READY,
        runtime=common_pb2.RUNTIME_ONNX,
        precision=common_pb2.PRECISION_FLOAT32,
        **fields,
    )


STEPS = [
    compression_pb2.AppliedStep(step="layers", description="kept layers 0, 2 of 4"),
    compression_pb2.AppliedStep(step="int8", description="13 matrices in 8 bits"),
]


@pytest.mark.parametrize("measured", [REPORT, STUDIES], ids=["report", "studies"])
def test_wide_and_narrow_screens(measured, stored) -> None:
    texts = {width: shown(measured, width) for width in (80, 100, 120, 160)}
    for width, text in texts.items():
        lines = text.split("\n[")[0].splitlines()
        assert max(map(len, lines)) <= width
        words = " ".join(" ".join(line.split()) for line in lines)
        for whole in ("not distinguishable", "1.90 [1.80, 1.99]" if measured is STUDIES else "2.00 [1.90, 2.10]"):
            assert whole in words
    stored(wide=texts[120], narrow=texts[80], markdown=benchmark_files.markdown(measured))


def test_runtimes_references_and_what_is_missing(stored) -> None:
    onnx = common_pb2.RUNTIME_ONNX
    alike: dict[str, Any] = {"runtime": onnx, "scores": False, "agreement": False}
    loaded = reports.model("b", 2.0, **alike, loaded_runtime=common_pb2.RUNTIME_TORCH)
    across = report(
        reports.model("a"),
        reports.model("b", 5.0, runtime=onnx, caveat="other runtime"),
        reports.model("c", 1.01, runtime=onnx, caveat="other runtime"),
        warnings=[BUSY],
        cut_short=True,
    )
    graphs = reports.model("b", 2.0, **alike)
    reference = reports.model("a", runtime=onnx, loaded_runtime=common_pb2.RUNTIME_TORCH)
    graphs.compared_with.CopyFrom(reference.provenance)
    message = reports.report(reports.model("a", scores=False), graphs)
    message.references.append(reference)
    sparse = reports.model("a")
    sparse.nonzero_parameters = 40_000_000
    bare = report(reports.model("a", scores=False), reports.model("b", 2.0, scores=False, agreement=False, lengths=(0,)))
    stored(
        all_run_alike=shown(report(reports.model("a", **alike), loaded, reports.model("c", 1.0, **alike))),
        across_runtimes=shown(across, 160),
        across_runtimes_as_markdown=benchmark_files.markdown(across),
        the_baseline_in_another_form=shown(replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message)), 160),
        not_measured=shown(bare),
        zeros=shown(report(sparse)),
        nothing=shown(studies(reports.study("WaLDORf (Tian 2019)", why="it has convolutional layers"))),
        markup=benchmark_files.markdown(studies(reports.study("a|b *c* <d>\ne", 2.0))),
    )


def test_numbers_ratios_and_notes(stored) -> None:
    values = 0.0, 0.01234, 0.999, 1.9349, 2.409, 43.21, 110.2, 437.9, 1240.4, 1e9
    without = Ratio(0.471, 0.0, math.inf, "not_distinguishable", no_interval="too_few_items")
    ratios = Ratio(0.004, 0.003, 0.005, "below"), Ratio(0.471, 0.46, 0.48, "below"), Ratio(434.2, 400, 500, "above"), without
    stored(
        three_digits=[benchmark_sheets.number(value) for value in values],
        factors=[benchmark_sheets.factor(value) for value in values],
        ratios=[benchmark_sheets.ratio(ratio, baseline=False, full=full) for ratio in ratios for full in (False, True)],
        shares=benchmark_sheets.ratio(without, baseline=False, full=True, percent=True),
        notes=benchmark_notes.report_notes(replace(REPORT, bootstrap=Bootstrap(resamples=200, seed=7, confidence=0.9))),
        no_machine=benchmark_notes.machine_note(Machine("", 0, (), (), 0, 0, "", 0.0)),
    )


def test_compressed_models(stored) -> None:
    compressed = read_model(model(compression=STEPS))
    stored(
        compressed=printed(compress.print_compressed, compressed, "/models/x"),
        of_the_model=printed(lambda screen: screen.print(models.model_table(compressed)), width=120),
        uncompressed=printed(lambda screen: screen.print(models.model_table(read_model(model()))), width=120),
    )
