"""Probes of numbers: the request, the stream read, its table, its output, its figure, its files, and broken replies."""

import io
import math
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.probe_requests import with_valued_texts
from bertscope.questions.probes.regression import regression_columns
from bertscope.questions.probes.regression_replies import RegressionAssembler
from bertscope.questions.probes.requests import train_probe_request
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope_workbench.command.views.probed_numbers import print_regression, regression_document
from bertscope_workbench.plots.probes import plot_regression_probe
from rich.console import Console

TEXT = bertscope.ValuedText("The bag weighs 37 kilograms.", [(37, 15, 17), (2.5, (4, 7), (8, 14))])
GOLD = np.arange(20.0)
MISSED = np.resize([1.0, -2.0, 0.5], 20)


def request(train=TEXT, *, dev=(), test=(), **fields):
    return with_valued_texts(train_probe_request(**fields), train, dev=dev, test=test)


def run(error, variance):
    score = probes.ProbeScore(loss=error, variance=variance)
    return probes.ProbeRun(seed=3, best_epoch=2, dev=score, test=score, gradient=0.5)


def report(**fields):
    """Of 20 texts of a span, whose number the first seed misses by MISSED and the second by twice that."""
    squares, variance = MISSED**2, GOLD.var()
    part = probes.ProbePart(texts=20, spans=20, value_mean=GOLD.mean(), value_variance=variance, truncated_spans=1)
    task = [run(squares.mean(), variance), run(4 * squares.mean(), variance)]
    layers = [
        probes.LayerProbes(layer=layer, task=task, control=[run(30, 20), run(10, 20)], errors=5 * squares) for layer in (0, 2)
    ]
    away = GOLD - GOLD.mean()
    values = [probes.TextValues(spans=1, sum=one, squares=one**2) for one in away]
    train = probes.ProbePart(texts=20, spans=20, value_mean=GOLD.mean() + 3, value_variance=1)
    usual = {"layers": layers, "train": train, "dev": part, "test": part, "best_layer": 2, "values": values}
    usual |= {"pooling": probes.TrainProbeRequest.POOLING_LAST, "hidden_size": 4}
    found = probes.ProbeReport(**usual | fields)
    found.provenance.model = "models/m"
    return probes.TrainProbeResponse(report=found)


def read(*messages, **fields):
    assembler = RegressionAssembler(request(**fields))
    return [assembler.add(message) for message in messages]


def test_a_request_has_numbers_and_no_labels() -> None:
    message = request(dev=[TEXT], ending="minimum")
    assert not message.labels
    first, second = message.train[0].spans
    assert (first.value, first.span.start, first.span.end, first.label, first.HasField("other")) == (37, 15, 17, 0, False)
    assert (second.value, second.span.start, second.other.start, second.other.end) == (2.5, 4, 8, 14)
    assert len(message.dev) == 1


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("values[0]'s value", [("many", 0, 3)]),
        ("values[0]'s value", [(math.inf, 0, 3)]),
        ("values[0]", [(1.0, 0)]),
    ],
)
def test_what_is_no_number(field: str, values: list[tuple[object, ...]]) -> None:
    with pytest.raises(bertscope.InvalidArgument) as error:
        bertscope.ValuedText("The cat", values)
    assert error.value.field_violations[0].field == field


def test_empty_training_texts() -> None:
    with pytest.raises(bertscope.InvalidArgument, match="train: is empty"):
        request(train=[])


def test_a_report_becomes_a_result() -> None:
    (result,) = read(report())
    assert isinstance(result, bertscope.RegressionResult)
    best, error, variance = result.layer(2), (MISSED**2).mean(), GOLD.var()
    assert best.r_squared == pytest.approx(1 - 2.5 * error / variance)
    assert best.spread == (pytest.approx(1 - 4 * error / variance), pytest.approx(1 - error / variance))
    assert best.interval is not None and best.rmse_interval is not None
    assert best.interval.low < best.r_squared < best.interval.high < 1
    assert best.rmse == pytest.approx(math.sqrt(2.5 * error))
    assert best.rmse_interval.low < best.rmse < best.rmse_interval.high
    assert best.control_r_squared == 0
    assert best.selectivity == best.r_squared
    np.testing.assert_allclose(best.errors, 2.5 * MISSED**2)
    assert best.r_squared == pytest.approx(1 - best.errors.sum() / result.squares.sum())
    assert result.mean_rmse == pytest.approx(math.sqrt(variance + 9))
    assert (result.pooling, result.seeds, result.scored, best.gradient) == ("last", (3, 3), "test", 0.5)
    with pytest.raises(KeyError):
        result.layer(1)
    table = result.to_pandas()
    assert list(table.columns) == list(regression_columns(result))
    assert table["r_squared"].tolist() == [one.r_squared for one in result.layers]


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of R^2 where errors of a text are alike; a plain bootstrap of words would be too narrow."""
    numbers, held = np.random.default_rng(5), 0
    for _ in range(100):
        gold, missed = numbers.normal(size=80), 0.5 * numbers.normal(size=80)
        squares = (gold - gold.mean()) ** 2
        values = [probes.TextValues(spans=1, sum=0, squares=one) for one in squares]
        own = run(float((missed**2).mean()), float(gold.var()))
        part = probes.ProbePart(texts=80, spans=80, value_variance=gold.var())
        layer = probes.LayerProbes(task=[own], control=[own], errors=missed**2)
        (result,) = read(report(layers=[layer], values=values, test=part))
        interval = result.layers[0].interval
        held += interval.low <= 0.75 <= interval.high
    # 100 intervals of 95 % hold fewer than 89 times with a probability below 1 %.
    assert held >= 89


def test_few_texts_and_equal_numbers_have_no_interval() -> None:
    part = probes.ProbePart(texts=3, spans=3)
    layers = [probes.LayerProbes(task=[run(2, 0)], control=[run(2, 1)], errors=[1, 2, 3])]
    values = [probes.TextValues(spans=1)] * 3
    (result,) = read(report(layers=layers, values=values, test=part))
    (only,) = result.layers
    assert math.isnan(only.r_squared)
    assert only.interval is None


def test_output_figure_and_file(tmp_path: Path) -> None:
    ones = np.ones((4, 1), "<f4")
    weights = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=(4, 1), data=ones.tobytes())
    biases = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=(1,), data=ones[:1].tobytes())
    sent = [
        probes.TrainProbeResponse(weights=probes.ProbeWeights(layer=layer, weights=weights, biases=biases)) for layer in (0, 2)
    ]
    *_, result = read(report(), *sent, weights=True)
    screen = Console(file=io.StringIO(), width=160)
    print_regression(screen, result, [])
    text = screen.file.getvalue()
    assert "2 *" in text
    assert f"{result.layer(2).r_squared:.3f}" in text
    assert "1 cut away" in text
    assert regression_document(result)["layers"][1]["control"] == 0
    (axes,) = plot_regression_probe(result).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [one.r_squared for one in result.layers])
    bertscope.KeptProbe.of(result).save(tmp_path / "numbers.npz")
    kept = bertscope.load_probe(tmp_path / "numbers.npz")
    assert (kept.labels, kept.layers, kept.hidden_size) == ((), (0, 2), 4)
    np.testing.assert_array_equal(kept.weights[2][0], ones)


@pytest.mark.parametrize(
    "fields", [{"layers": []}, {"values": []}, {"values": [probes.TextValues(spans=1)] * 19 + [probes.TextValues(spans=2)]}]
)
def test_reports_that_break_the_contract(fields: dict[str, object]) -> None:
    with pytest.raises(bertscope.InvalidReply):
        read(report(**fields))


def test_numbers_of_files(tmp_path: Path) -> None:
    tree = "# text = The cat sleeps\n1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n"
    tree += "3\tsleeps\tsleep\tVERB\tVB\t_\t0\troot\t_\t_\n\n"
    path = tmp_path / "a.conllu"
    path.write_text(tree, encoding="utf-8")
    assert [value.value for value in bertscope.read_valued_texts(path, "index")[0].values] == [1, 2, 3]
    assert [value.value for value in bertscope.read_valued_texts(path, "depth")[0].values] == [2, 1, 0]
    with pytest.raises(bertscope.InvalidArgument, match="numbers"):
        bertscope.read_valued_texts(path, "upos")
    lines = tmp_path / "a.jsonl"
    lines.write_text(
        '{"text": "37 bags", "spans": [{"start": 0, "end": 2, "value": 37}]}\n'
        '{"text": "37 bags", "spans": [{"start": 0, "end": 2}]}\n'
        '{"text": "38 bags", "spans": [{"start": 0, "end": 2, "value": 38, "other": {"start": 3, "end": 7}}]}\n',
        encoding="utf-8",
    )
    found = bertscope.read_valued_texts(lines)
    assert [text.values[0].value for text in found] == [37, 38]
    assert found[1].values[0].other == (3, 7, 0)
    assert len(found.problems) == 1
    columns = tmp_path / "a.tsv"
    columns.write_text("three\t3\nbags\t_\n\nno\tmany\n\n", encoding="utf-8")
    found = bertscope.read_valued_texts(columns)
    assert found[0].values[0][:3] == (3.0, 0, 5)
    assert len(found.problems) == 1
