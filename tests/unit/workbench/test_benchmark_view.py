"""What `bertscope benchmark` and `bertscope compress` print, and what Markdown says."""

import io
import math
from dataclasses import replace

import pytest
from bertscope import BenchmarkReport, Bootstrap, Machine, Ratio, StudyTable
from bertscope.questions.benchmark import replies
from bertscope.v1 import benchmark_pb2, common_pb2, compression_pb2, model_pb2
from bertscope.values.models import read_model
from bertscope_workbench.command.commands import compress
from bertscope_workbench.command.views import benchmark as benchmark_view
from bertscope_workbench.command.views import benchmark_files, benchmark_notes, benchmark_sheets, models
from rich.console import Console

from tests.support import reports
from tests.support.benchmarked import report, studies


def shown(measured: BenchmarkReport | StudyTable, width: int = 120) -> list[str]:
    screen = Console(width=width, file=io.StringIO())
    show = benchmark_view.print_report if isinstance(measured, BenchmarkReport) else benchmark_view.print_studies
    show(screen, measured)
    return [line.rstrip() for line in screen.file.getvalue().splitlines() if line.strip()]


def rows(lines: list[str], title: str) -> list[list[str]]:
    """The cells of a table, found by its title: what stands between its rule and the next line that is no row."""
    place = lines.index(title)
    first = next(index for index in range(place, len(lines)) if set(lines[index].strip()) == {"─"}) + 1
    cells = []
    for line in lines[first:]:
        if not line.startswith(" "):
            break
        cells.append(line.split())
    return cells


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


def test_a_report_on_a_wide_screen():
    lines = shown(REPORT)
    assert lines[0] == "benchmark against models/big"
    assert rows(lines, "models: how they run, how large they are") == [
        ["big", "torch", "fp32", "100", "400", "1.00", "420"],
        ["same", "torch", "fp32", "100", "400", "1.00", "420"],
        ["small", "onnx", "bf16", "half+onnx", "50.0", "100", "4.00", "120"],
    ]
    assert rows(lines, "32 tokens: one sequence at a time, in batches") == [
        ["big", "3.20", "3.84", "4.80", "baseline", "625", "8", "baseline"],
        ["same", "3.17", "3.80", "4.75", "not", "distinguishable", "631", "8", "2.02", "[1.92,", "2.12]"],
        ["small", "1.60", "1.92", "2.40", "2.00", "[1.90,", "2.10]", "1250", "8", "4.00", "[3.80,", "4.20]"],
    ]
    assert rows(lines, "what was lost: agreement at 120 places, accuracy") == [
        ["big", "baseline", "0.8000", "baseline"],
        ["same", "100.0", "%", "50.0", "%", "0.0000", "[0.0000,", "1.0000]", "0.8000", "not", "distinguishable"],
        ["small", "90.0", "%", "45.0", "%", "0.1000", "[0.0000,", "1.0000]", "0.7200", "90.0", "%", "[88.2,", "91.8]"],
    ]
    assert "covers noise only" in lines[-4]
    assert lines[-3:] == [
        "A fine CPU, 2 cores, 1 thread, avx512f, avx512_vnni, 16 GB of memory, Linux 6",
        "torch 2.15.0",
        "12.5 s, other calls: 3 waited, 1 refused, other processes took 3 % of the processor",
    ]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("measured", [REPORT, STUDIES])
def test_nothing_is_wider_than_the_screen_and_every_number_is_whole(measured, width):
    lines = shown(measured, width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(line.split()) for line in lines)
    for whole in ("not distinguishable", "1.90 [1.80, 1.99]" if measured is STUDIES else "2.00 [1.90, 2.10]"):
        assert whole in text


def test_a_narrow_screen_has_the_same_columns_in_more_tables():
    lines = shown(REPORT, 80)
    assert rows(lines, "128 tokens: one sequence at a time")[2][1:] == ["6.40", "7.68", "9.60", "2.00", "[1.90,", "2.10]"]
    assert rows(lines, "128 tokens: in batches")[2][1:] == ["312", "8", "4.00", "[3.80,", "4.20]"]
    assert rows(lines, "what was lost: accuracy, loss")[2][6:] == ["2.2222", "90.0", "%", "[88.2,", "91.8]"]


def test_what_was_not_measured_is_left_out():
    bare = report(reports.model("a", scores=False), reports.model("b", 2.0, scores=False, agreement=False, lengths=(0,)))
    lines = shown(bare)
    assert not any("what was lost" in line for line in lines)
    assert rows(lines, "given texts: one sequence at a time, in batches")[0] == ["a"]
    assert rows(lines, "32 tokens: one sequence at a time, in batches")[1] == ["b"]


def test_a_report_that_was_cut_short_says_so():
    lines = shown(report(reports.model("a"), cut_short=True, warnings=["cut short by the time limit"]))
    assert lines[1] == "warning: cut short by the time limit"


LOADED_FOR_TORCH = reports.model(
    "b", 2.0, runtime=common_pb2.RUNTIME_ONNX, loaded_runtime=common_pb2.RUNTIME_TORCH, scores=False, agreement=False
)
ONNX = {"runtime": common_pb2.RUNTIME_ONNX, "scores": False, "agreement": False}
BUSY = "other processes took 63 % of the processor"


def test_models_that_all_ran_alike_and_what_was_copied_for_that():
    lines = shown(report(reports.model("a", **ONNX), LOADED_FOR_TORCH, reports.model("c", 1.0, **ONNX)))
    assert lines[0] == "benchmark against models/a, all run by onnx"
    cells = rows(lines, "models: how they run, how large they are")
    assert [row[:5] for row in cells] == [
        ["a", "onnx", "fp32", "100", "400"],
        ["b", "onnx", "fp32", "torch", "fp32"],
        ["c", "onnx", "fp32", "100", "400"],
    ]


def test_a_ratio_between_two_runtimes_says_so_beside_the_number_and_warnings_come_first():
    found = report(
        reports.model("a"),
        reports.model("b", 5.0, runtime=common_pb2.RUNTIME_ONNX, caveat="other runtime"),
        reports.model("c", 1.01, runtime=common_pb2.RUNTIME_ONNX, caveat="other runtime"),
        warnings=[BUSY],
    )
    lines = shown(found, 160)
    assert lines[:2] == ["benchmark against models/a", f"warning: {BUSY}"]
    cells = [" ".join(row) for row in rows(lines, "32 tokens: one sequence at a time, in batches")]
    assert "5.00 [4.75, 5.25], other runtime" in cells[1]
    assert "not distinguishable, other runtime" in cells[2]
    assert any("covers noise only" in line for line in lines)
    markdown = benchmark_files.markdown(found)
    assert markdown.startswith(f"# Benchmark against models/a\n\n> **Warning:** {BUSY}\n\n## models\n")
    assert "| 5.00 [4.75, 5.25], other runtime |" in markdown
    assert "| not distinguishable (1.01 [0.96, 1.06]), other runtime |" in markdown
    assert "- [low, high] is an interval over this run: it covers noise only" in markdown


def test_the_baseline_in_another_form_has_a_row_and_models_say_what_they_were_compared_with():
    graphs = reports.model("b", 2.0, runtime=common_pb2.RUNTIME_ONNX, scores=False, agreement=False)
    reference = reports.model("a", runtime=common_pb2.RUNTIME_ONNX, loaded_runtime=common_pb2.RUNTIME_TORCH)
    graphs.compared_with.CopyFrom(reference.provenance)
    message = reports.report(reports.model("a", scores=False), graphs)
    message.references.append(reference)
    found = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    lines = shown(found, 160)
    names = [" ".join(row) for row in rows(lines, "models: how they run, how large they are")]
    assert [name.split()[0] for name in names] == ["a", "b", "a"]
    assert names[2].startswith("a by onnx onnx fp32 torch fp32")
    assert "a by onnx" in names[1]
    assert rows(lines, "32 tokens: one sequence at a time, in batches")[2][-1] == "baseline"


def test_weights_that_are_zero_are_told():
    model = reports.model("a")
    model.nonzero_parameters = 40_000_000
    assert rows(shown(report(model)), "models: how they run, how large they are")[0][3:6] == ["100", "(40.0", "not"]


def test_studies_side_by_side():
    lines = shown(STUDIES)
    title = "the Primer's Table 1, published and measured: compression, speed-up one at a time"
    distil, imp = (" ".join(row) for row in rows(lines, title))
    assert distil == "DistilBERT (Sanh 2019a) 1.5 1.65 1.6 1.90 [1.80, 1.99] 1.90 [1.80, 1.99]"
    assert imp == "IMP (Chen 2020) 1.4-2.5 1.65 not distinguishable not distinguishable"
    assert "not measured: WaLDORf (Tian 2019): it has convolutional layers" in lines
    assert lines[-1] == "99.0 s, no other calls, other processes took 3 % of the processor"


def test_studies_none_of_which_could_be_measured():
    lines = shown(studies(reports.study("WaLDORf (Tian 2019)", why="it has convolutional layers")))
    assert lines[0] == "not measured: WaLDORf (Tian 2019): it has convolutional layers"


def test_a_machine_that_measured_nothing_is_not_described():
    assert benchmark_notes.machine_note(Machine("", 0, (), (), 0, 0, "", 0.0)) == ""


def test_markdown_has_the_intervals_of_what_is_not_distinguishable():
    text = benchmark_files.markdown(REPORT)
    assert text.startswith("# Benchmark against models/big\n\n## models\n\n| model | runtime | precision | compressed |")
    row = "| same | 3.17 | 3.80 | 4.75 | not distinguishable (1.01 [0.96, 1.06]) | 631 | 8 | 2.02 [1.92, 2.12] |"
    assert row in text.splitlines()
    assert text.endswith("- 12.5 s, other calls: 3 waited, 1 refused, other processes took 3 % of the processor\n")
    table = benchmark_files.markdown(STUDIES)
    assert "| IMP (Chen 2020) | 1.4-2.5 | 1.65 |  | not distinguishable (0.99 [0.94, 1.04]) |" in table
    assert "- Not measured: WaLDORf (Tian 2019): it has convolutional layers" in table


def test_markdown_keeps_what_looks_like_markup():
    odd = studies(reports.study("a|b *c* <d>\ne", 2.0))
    assert r"| a\|b \*c\* \<d> e |" in benchmark_files.markdown(odd)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.9349, "1.93"), (43.21, "43.2"), (437.9, "438"), (1240.4, "1240"), (1e9, "1000000000")],
)
def test_numbers_have_three_digits_and_no_exponent(value, expected):
    assert benchmark_sheets.number(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.999, "1.00"), (2.409, "2.41"), (110.2, "110"), (0.0123, "0.0123")])
def test_factors_are_told_to_a_hundredth(value, expected):
    assert benchmark_sheets.factor(value) == expected


def test_a_ratio_without_an_interval_says_why():
    ratio = Ratio(0.471, 0.0, math.inf, "not_distinguishable", no_interval="too_few_items")
    for full in (False, True):
        assert benchmark_sheets.ratio(ratio, baseline=False, full=full) == "0.47, no interval: too few items"
    assert benchmark_sheets.ratio(ratio, baseline=False, full=True, percent=True) == "47.1 %, no interval: too few items"


def test_notes_say_what_intervals_are_computed_with():
    found = replace(REPORT, bootstrap=Bootstrap(resamples=200, seed=7, confidence=0.9))
    assert "90 % intervals: 200 resamples, seed 7" in benchmark_notes.report_notes(found)


def test_small_and_large_ratios():
    for ratio, expected in (
        (Ratio(0.004, 0.003, 0.005, "below"), "0.00400 [0.00300, 0.00500]"),
        (Ratio(0.471, 0.46, 0.48, "below"), "0.47 [0.46, 0.48]"),
        (Ratio(434.2, 400, 500, "above"), "434 [400, 500]"),
    ):
        assert benchmark_sheets.ratio(ratio, baseline=False, full=False) == expected


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


def test_a_compressed_model_says_what_each_step_did():
    screen = Console(width=100, file=io.StringIO())
    compress.print_compressed(screen, read_model(model(compression=STEPS)), "/models/x")
    lines = [line.strip() for line in screen.file.getvalue().splitlines() if line.strip()]
    assert lines[:2] == ["layers: kept layers 0, 2 of 4", "int8: 13 matrices in 8 bits"]
    assert lines[-2:] == ["models/x is compressed: layers, int8", "saved in /models/x on the server"]
    assert any("onnx cpu, fp32" in line for line in lines)


@pytest.mark.parametrize(("steps", "expected"), [(STEPS, True), ([], False)])
def test_all_that_is_known_of_a_compressed_model(steps, expected):
    screen = Console(width=120, file=io.StringIO())
    screen.print(models.model_table(read_model(model(compression=steps))))
    assert ("kept layers 0, 2 of 4; 13 matrices in 8 bits" in screen.file.getvalue()) is expected
