"""Probes: the request, the treebank's labels, the stream read, its table, its output, its figure, and broken replies."""

from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope.questions.probes.probe_messages import ProbeAssembler, with_probe_texts
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1.representation_probes_pb2 import TrainProbeRequest
from bertscope.values.intervals import share_interval
from bertscope.values.requests import request_of
from bertscope.values.vectors import tensor
from bertscope_workbench.command.commands.probe import document, print_probe
from bertscope_workbench.plots.probes import plot_probe

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import printed
from tests.support.treebank import TREE

TEXT = bertscope.ProbeText("The cat sleeps.", [("NOUN", 4, 7), ("DET", 0, 3)])


def request(train=TEXT, *, dev=(), test=(), labels=None, **fields):
    return with_probe_texts(request_of(TrainProbeRequest, **fields), train, dev=dev, test=test, labels=labels)


def run(correct, test=True):
    score = probes.ProbeScore(correct=correct, loss=0.5)
    return probes.ProbeRun(seed=3, best_epoch=2, dev=score, test=score if test else None)


def hits(correct, runs=2):
    """Of 10 texts of a span: so many correct ones together, of as many seeds."""
    full, rest = divmod(correct, runs)
    kinds = [(0, 10 - full - bool(rest)), *([(rest, 1)] if rest else []), (runs, full)]
    return [probes.TextHits(spans=1, correct=own, texts=texts) for own, texts in kinds if texts]


def report(test=True, **fields):
    part = probes.ProbePart(texts=2, spans=10, label_spans=[6, 4], majority_correct=6, truncated_spans=1)
    layers = [
        probes.LayerProbes(
            layer=layer, task=[run(7 + layer, test), run(8, test)], control=[run(5, test)], hits=hits(15 + layer)
        )
        for layer in (0, 2)
    ]
    usual = {"layers": layers, "train": part, "dev": part, "test": part if test else None, "best_layer": 2}
    usual |= {"confusion": [5, 1, 0, 4], "pooling": probes.TrainProbeRequest.POOLING_FIRST, "hidden_size": 4}
    found = probes.ProbeReport(**usual | fields)
    found.provenance.model = "models/m"
    return probes.TrainProbeResponse(report=found)


def read(*messages, **fields):
    assembler = ProbeAssembler(request(**fields))
    return [assembler.add(message) for message in messages]


def test_few_texts_have_intervals_too() -> None:
    assert share_interval(np.array([]), np.array([])) == (0.0, 1.0)
    few = share_interval(np.array([9.0, 4.0]), np.array([10.0, 5.0]))
    assert 0 <= few.low < 13 / 15 < few.high <= 1


LABELS = ("upos", "xpos", "deprel", "head", "depth", "arc")


def test_labels_of_a_treebank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.conllu").write_text(TREE, encoding="utf-8")
    found = {label: workbench.read_probe_conllu("a.conllu", label) for label in LABELS}
    other = bertscope.ProbeText(("The cat", "sleeps"), [("VERB", 0, 6, 1)])
    pair = bertscope.ProbeText(("a b", "c"), [("det", (0, 1), (0, 1, 1))])
    stored(
        labels={label: [[*text.labels] for text in texts] for label, texts in found.items()},
        problems={label: list(map(str, texts.problems)) for label, texts in found.items()},  # heads in a circle have no depth
        request=request(dev=[other], l2=0),
        pairs=request(train=[*found["arc"][:1], pair]),
        refused=[lambda: request(train=[]), lambda: request(train=["a text"]), lambda: request(labels=["NOUN"])],
    )


def weights_of(layer: int, *, units: int = 0) -> probes.TrainProbeResponse:
    def numbers(*shape: int) -> common_pb2.Tensor:
        return tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))

    first = {"weights": numbers(4, units or 2), "biases": numbers(units or 2)}
    rest = {"output_weights": numbers(units, 2), "output_biases": numbers(2)} if units else {}
    return probes.TrainProbeResponse(weights=probes.ProbeWeights(layer=layer, **first, **rest))


def test_probes(stored) -> None:
    stage = probes.ProbeProgress(stage=probes.ProbeProgress.STAGE_TRAINING, done=1, total=40, best_dev_accuracy=0.5)
    progress, *_, result = read(probes.TrainProbeResponse(progress=stage), report(), weights_of(0), weights_of(2), weights=True)
    *_, hidden = read(report(), weights_of(0, units=3), weights_of(2, units=3), weights=True, hidden_units=3)
    stored(
        progress=progress,
        probes=result,
        confusions=[result.confusions(), lambda: result.layer(1)],
        hidden=[values.shape for values in hidden.weights[2]],
        of_two_parts=read(report(test=False))[0].scored,
        printed=printed(print_probe, result, [], width=160),
        document=document(result),
        figure=plot_probe(result),
        broken=refusals(lambda messages: read(*messages)[-1], report()),
        broken_weights=refusals(lambda messages: read(report(), *messages, weights=True)[-1], weights_of(0), weights_of(2)),
    )


def test_a_mix_of_layers(stored) -> None:
    cumulative = [probes.LayerProbes(layer=layer, task=[run(5 + layer)], hits=hits(5 + layer, 1)) for layer in (0, 2)]
    mix = probes.LayerMix(cumulative=cumulative, weights=[probes.MixingWeights(seed=3, scale=2, shares=(0.25, 0.75))])
    (result,) = read(report(mix=mix), mix=True)
    stored(
        mix=result.mix,
        printed=printed(print_probe, result, [], width=160),
        document=document(result)["mix"],
        figure=plot_probe(result, dark=True),
        broken=refusals(lambda messages: read(report(mix=messages[0]), mix=True), mix),
    )
