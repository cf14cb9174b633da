"""What `bertscope benchmark` and `bertscope compress` print, and what Markdown says."""

import io

import pytest
from bertscope import BenchmarkReport, Machine, Ratio, StudyTable, _benchmark_replies, _replies
from bertscope._benchmark_replies import StudiesAssembler
from bertscope.cli import benchmark_files, benchmark_sheets, benchmark_view, compress, models
from bertscope.v1 import benchmark_pb2, common_pb2, compression_pb2, model_pb2
from rich.console import Console

from tests import reports


def report(*models: benchmark_pb2.ModelReport, **fields: object) -> BenchmarkReport:
    message = benchmark_pb2.BenchmarkModelsResponse(report=reports.report(*models, **fields))
    return _benchmark_replies.reported(_benchmark_replies.benchmark_event(message))


def studies(*rows: benchmark_pb2.StudyRow) -> StudyTable:
    assembler = StudiesAssembler(None)
    for row in rows:
        assembler.add(benchmark_pb2.BenchmarkStudiesResponse(row=row))
    assembler.add(benchmark_pb2.BenchmarkStudiesResponse(summary=reports.summary()))
    return assembler.end()


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
    lines = shown(report(reports.model("a"), cut_short=True))
    assert any(line.startswith("cut short by the time limit") for line in lines)


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
    assert benchmark_sheets.machine_note(Machine("", 0, (), (), 0, 0, "", 0.0)) == ""


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
    compress.print_compressed(screen, _replies.model(model(compression=STEPS)), "/models/x")
    lines = [line.strip() for line in screen.file.getvalue().splitlines() if line.strip()]
    assert lines[:2] == ["layers: kept layers 0, 2 of 4", "int8: 13 matrices in 8 bits"]
    assert lines[-2:] == ["models/x is compressed: layers, int8", "saved in /models/x on the server"]
    assert any("onnx cpu, fp32" in line for line in lines)


@pytest.mark.parametrize(("steps", "expected"), [(STEPS, True), ([], False)])
def test_all_that_is_known_of_a_compressed_model(steps, expected):
    screen = Console(width=120, file=io.StringIO())
    screen.print(models.model_table(_replies.model(model(compression=steps))))
    assert ("kept layers 0, 2 of 4; 13 matrices in 8 bits" in screen.file.getvalue()) is expected
