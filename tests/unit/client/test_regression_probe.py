"""Probes of numbers: the request, the stream read, its table, its output, its figure, its files, and broken replies."""

import math
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope.questions.probes.probe_messages import with_valued_texts
from bertscope.questions.probes.regression import RegressionAssembler
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1.representation_probes_pb2 import TrainProbeRequest
from bertscope.values.requests import request_of
from bertscope.values.vectors import tensor
from bertscope_workbench.command.commands.probe import print_regression, regression_document
from bertscope_workbench.plots.probes import plot_regression_probe

from tests.support.stored_outputs import printed
from tests.support.treebank import TREE

TEXT = bertscope.ValuedText("The bag weighs 37 kilograms.", [(37, 15, 17), (2.5, (4, 7), (8, 14))])
GOLD = np.arange(20.0)
MISSED = np.resize([1.0, -2.0, 0.5], 20)


def request(train=TEXT, *, dev=(), test=(), **fields):
    return with_valued_texts(request_of(TrainProbeRequest, **fields), train, dev=dev, test=test)


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


def test_a_request_has_numbers_and_no_labels(stored) -> None:
    stored(
        request=request(dev=[TEXT], ending="minimum"),
        refused=[
            lambda: bertscope.ValuedText("The cat", [("many", 0, 3)]),
            lambda: bertscope.ValuedText("The cat", [(math.inf, 0, 3)]),
            lambda: bertscope.ValuedText("The cat", [(1.0, 0)]),
            lambda: request(train=[]),
        ],
    )


def test_probes_of_numbers(stored, tmp_path: Path) -> None:
    weights, biases = tensor(np.ones((4, 1), np.float32)), tensor(np.ones(1, np.float32))
    sent = [
        probes.TrainProbeResponse(weights=probes.ProbeWeights(layer=layer, weights=weights, biases=biases)) for layer in (0, 2)
    ]
    *_, result = read(report(), *sent, weights=True)
    best, error, variance = result.layer(2), (MISSED**2).mean(), GOLD.var()
    assert best.r_squared == pytest.approx(1 - 2.5 * error / variance)
    assert best.interval.low < best.r_squared < best.interval.high < 1
    assert best.rmse == pytest.approx(math.sqrt(2.5 * error))
    assert result.mean_rmse == pytest.approx(math.sqrt(variance + 9))
    few = probes.ProbePart(texts=3, spans=3)
    layers = [probes.LayerProbes(control=[run(2, 1)], task=[run(2, 0)], errors=[1, 2, 3])]
    (equal,) = read(report(layers=layers, values=[probes.TextValues(spans=1)] * 3, test=few))
    bertscope.KeptProbe.of(result).save(tmp_path / "numbers.npz")
    stored(
        probes=result,
        of_equal_numbers=equal.layers,
        printed=printed(print_regression, result, [], width=160),
        document=regression_document(result),
        figure=plot_regression_probe(result),
        kept=bertscope.load_probe(tmp_path / "numbers.npz"),
        broken=[
            lambda: read(report(layers=[])),
            lambda: read(report(values=[])),
            lambda: read(report(values=[probes.TextValues(spans=1)] * 19 + [probes.TextValues(spans=2)])),
        ],
    )


LINES = """\
{"text": "37 bags", "spans": [{"start": 0, "end": 2, "value": 37}]}
{"text": "37 bags", "spans": [{"start": 0, "end": 2}]}
{"text": "38 bags", "spans": [{"start": 0, "end": 2, "value": 38, "other": {"start": 3, "end": 7}}]}
"""


def test_numbers_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.conllu": TREE, "a.jsonl": LINES, "a.tsv": "three\t3\nbags\t_\n\nno\tmany\n\n"}.items():
        Path(name).write_text(text, encoding="utf-8")
    lines, columns = workbench.read_valued_texts("a.jsonl"), workbench.read_valued_texts("a.tsv")
    stored(
        places=list(workbench.read_valued_texts("a.conllu", "index")),
        depths=list(workbench.read_valued_texts("a.conllu", "depth")),
        lines=list(lines),
        columns=list(columns),
        problems=[*lines.problems, *columns.problems],
        refused=lambda: workbench.read_valued_texts("a.conllu", "upos"),
    )
