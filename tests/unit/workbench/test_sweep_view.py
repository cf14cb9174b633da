"""What `bertscope sweep` prints of a table."""

import io
from dataclasses import replace

import pytest
from bertscope import CurvePoint, HeadEffect, MetricEffect, Provenance, SweepStart, SweepSummary, SweepTable
from bertscope_workbench.command.views.sweep import print_sweep
from rich.console import Console

SUMMARY = SweepSummary(0, 0, 3000, 9000, 2.5, Provenance("models/m", "", "torch", "cpu", "fp32", {}, "zero_based"))


def metric_effect(metric: str, difference: float, margin: float | None, p: float | None = None) -> MetricEffect:
    low, high = (None, None) if margin is None else (difference - margin, difference + margin)
    return MetricEffect(metric, 0.5 + difference, difference, low, high, p)


def table_of(differences: list[list[float]], metric: str = "accuracy", margin: float | None = 0.01) -> SweepTable:
    p = 0.04 if metric == "accuracy" else None
    effects = tuple(
        HeadEffect({layer: (head,)}, {metric: metric_effect(metric, value, margin, p)})
        for layer, row in enumerate(differences)
        for head, value in enumerate(row)
    )
    return SweepTable("zero", "heads", SweepStart({metric: 0.5}, len(effects), 7, 2, 1, 0), effects, (), SUMMARY)


def shown(table: SweepTable, top: int = 10, width: int = 120) -> list[str]:
    screen = Console(width=width, file=io.StringIO())
    print_sweep(screen, table, table.metric(), top)
    return [line.rstrip() for line in screen.file.getvalue().splitlines() if line.strip()]


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if ":" in line.split()[0] and line.split()[0][0].isdigit()]


def test_a_sweep_in_words():
    lines = shown(table_of([[0.02, 0.005], [-0.03, 0.0]]))
    assert lines[0] == "each head zeroed, 7 items, models/m"
    assert lines[1] == "baseline: accuracy 0.5000"
    assert lines[2] == "prompts left out, having no answer of a single piece: 2"
    assert lines[3] == "texts that were cut: 1"
    assert " ".join(lines[4:6]).startswith(
        "of 4 changes, by the intervals of their accuracy: 1 helped, 1 hurt (by chance 0.1 each), 2 can't be told from no"
    )
    assert lines[-1] == "2.5 s, 3 k layer passes (9 k without shared layers)"


def test_rows_go_from_what_helps_to_what_hurts():
    assert rows(shown(table_of([[0.02, 0.005], [-0.03, 0.0]]))) == [
        ["0:0", "0.5200", "+0.0200", "+0.0100", "to", "+0.0300", "0.04"],
        ["0:1", "0.5050", "+0.0050", "-0.0050", "to", "+0.0150", "0.04"],
        ["1:1", "0.5000", "+0.0000", "-0.0100", "to", "+0.0100", "0.04"],
        ["1:0", "0.4700", "-0.0300", "-0.0400", "to", "-0.0200", "0.04"],
    ]
    assert [row[0] for row in rows(shown(table_of([[0.02, 0.005], [-0.03, 0.0]], "loss")))] == ["1:0", "1:1", "0:1", "0:0"]


@pytest.mark.parametrize(("top", "expected"), [(3, ["0:0", "0:1", "1:0"]), (1, ["0:0"]), (0, [])])
def test_rows_in_the_middle_are_left_out(top, expected):
    lines = shown(table_of([[0.02, 0.005], [-0.03, 0.0]]), top)
    assert [row[0] for row in rows(lines)] == expected
    assert any(line.strip() == f"... {4 - top} more" for line in lines) == (top == 3)


def test_of_divergences_the_largest_come_first():
    lines = shown(table_of([[0.02, 0.5], [0.3, 0.1]], "divergence"), top=2)
    assert [row[:2] for row in rows(lines)] == [["0:1", "1.0000"], ["1:0", "0.8000"]]
    assert not any("baseline" in line or "helped" in line for line in lines)


def test_the_map_has_the_last_layer_on_top():
    lines = shown(table_of([[0.02, 0.005], [-0.03, 0.0]]))
    place = lines.index("each head: difference in accuracy, x 1000 (*: the interval excludes 0)")
    assert [line.split() for line in lines[place + 1 : place + 4]] == [
        ["0", "1"],
        ["layer", "1", "-30*", "0"],
        ["layer", "0", "+20*", "+5"],
    ]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("accuracy", [["layer", "1", *"-·"], ["layer", "0", *"+·"]]),
        ("loss", [["layer", "1", *"+·"], ["layer", "0", *"-·"]]),
    ],
)
def test_a_map_without_room_has_signs_of_better_and_worse(metric, expected):
    lines = shown(table_of([[0.02, 0.005], [-0.03, 0.0]], metric), 0, width=16)
    assert [line.split() for line in lines if line.split()[0] == "layer" and len(line.split()) == 4] == expected


@pytest.mark.parametrize(
    ("reason", "cell", "line"),
    [
        ("too_few_items", "too few items", "no intervals: 7 items are too few for any; measure 5 or more"),
        (
            "too_few_differ",
            "too few moved",
            "changes without an interval: 2; of 7 items too few moved to tell the spread, so measure more",
        ),
        (
            "too_few_resamples",
            "too few resamples",
            "no intervals: --resamples 1000 are too few for this confidence; use 40 or more",
        ),
    ],
)
def test_why_there_is_no_interval(reason, cell, line):
    table = table_of([[0.02, 0.005]], margin=None)
    effects = tuple(
        replace(effect, metrics={name: replace(metric, no_interval=reason) for name, metric in effect.metrics.items()})
        for effect in table.effects
    )
    lines = shown(replace(table, effects=effects))
    assert line in lines
    assert sum(cell in one for one in lines if one.lstrip().startswith("0:")) == 2
    assert not any("no interval" in one or "without an interval" in one for one in shown(table_of([[0.02]])))


def test_layers_go_by_their_number():
    effects = tuple(HeadEffect({layer: (0, 1)}, {"loss": metric_effect("loss", 0.1 * layer, 0.01)}) for layer in (1, 0))
    table = SweepTable("zero", "layers", SweepStart({"loss": 0.5}, 2, 7, 0, 0, 0), effects, (), SUMMARY)
    found = [line.split() for line in shown(table) if " to " in line]
    assert [row[:2] for row in found] == [["0", "0.5000"], ["1", "0.6000"]]
    assert not any("each head:" in line for line in shown(table))


def test_small_differences_keep_two_digits():
    (first, *_) = rows(shown(table_of([[0.0000123, 0.000001]], "loss", None))[::-1])
    assert first == ["0:0", "0.5000123", "+0.0000123"]


def test_nothing_but_zeros_and_nothing_at_all():
    assert any(line.split() == ["layer", "0", "0"] for line in shown(table_of([[0.0]])))
    assert len(shown(table_of([]))) == 6


def test_a_curve_shows_its_first_and_its_last_point():
    points = tuple(
        CurvePoint(({0: (number,)},), number, number / 10, {"accuracy": metric_effect("accuracy", -number / 100, 0.01)})
        for number in range(11)
    )
    table = SweepTable("mean", "heads", SweepStart({"accuracy": 0.5}, 11, 7, 0, 0, 0), (), points, SUMMARY)
    lines = shown(table, 3)
    assert lines[0].startswith("each head replaced by its mean, one after another, 7 items")
    found = [line.split() for line in lines if "%" in line and "interval" not in line]
    assert any("95 % interval" in line for line in lines)
    assert [(row[0], row[1], row[2], row[-1]) for row in found] == [
        ("0", "0%", "0.5000", "0:0"),
        ("5", "50%", "0.4500", "0:5"),
        ("10", "100%", "0.4000", "0:10"),
    ]
    assert any("8 are not shown" in line for line in lines)


def curve(*names: int) -> SweepTable:
    point = CurvePoint(
        tuple({0: (name,)} for name in names), len(names), 0.5, {"accuracy": metric_effect("accuracy", -0.1, 0.01)}
    )
    return SweepTable("zero", "heads", SweepStart({"accuracy": 0.5}, 1, 7, 0, 0, 0), (), (point,), SUMMARY)


@pytest.mark.parametrize(
    ("width", "last"), [(120, "... 0:13 0:14 0:15 0:16 0:17 0:18 0:19"), (80, "... 0:18 0:19"), (66, "-0.0900")]
)
def test_a_point_takes_one_line_and_names_as_many_heads_as_there_is_room_for(width, last):
    lines = shown(curve(*range(20)), width=width)
    assert [line.endswith(last) for line in lines if "50%" in line] == [True]
    assert not any(line.strip().startswith(("0:", "+", "to")) for line in lines)
