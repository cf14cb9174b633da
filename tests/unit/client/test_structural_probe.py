"""Structural probes: the treebank read, the request, the stream read, its table, its output, its figure, and broken replies."""

from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope.questions.probes.structural_probes import StructuralProbeAssembler, with_trees
from bertscope.v1 import representation_structural_probes_pb2 as structural
from bertscope.v1.representation_probes_pb2 import ProbeProgress
from bertscope.v1.representation_structural_probes_pb2 import TrainStructuralProbeRequest
from bertscope.values.requests import request_of
from bertscope_workbench.command.commands.structural_probe import document, print_structural_probe
from bertscope_workbench.plots.structural_probes import plot_structural_probe

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import printed
from tests.support.treebank import TREE

SPLIT = """\
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_
2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_
3\tchat\tchat\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No
4\t!\t!\tPUNCT\t_\t_\t_\t_\t_\t_

1\tone\tone\tX\t_\t_\t0\troot\t_\t_
2\ttwo\ttwo\tX\t_\t_\t0\troot\t_\t_
"""


def report(test: bool = True, **fields: object) -> structural.TrainStructuralProbeResponse:
    part = structural.TreePart(texts=3, used_texts=2, words=10, empty_words=1, total=8, correlated_texts=2)
    score = structural.StructuralScore

    def run(correct: int) -> structural.StructuralRun:
        own = score(correct=correct, spearman=correct / 10, loss=0.5)
        return structural.StructuralRun(seed=3, best_epoch=2, dev=own, test=own if test else None)

    layers = [
        structural.LayerStructuralProbes(layer=layer, probes=[run(4 + layer), run(6)], projections=[run(2), run(2)])
        for layer in (0, 2)
    ]
    usual = {"layers": layers, "train": part, "dev": part, "test": part if test else None, "best_layer": 2, "chain": run(3)}
    usual |= {"pooling": 1, "quantity": 1, "rank": 64, "hidden_size": 384}
    found = structural.StructuralProbeReport(**usual | fields)
    found.provenance.model = "models/m"
    return structural.TrainStructuralProbeResponse(report=found)


def test_a_request_has_the_trees(stored) -> None:
    text = bertscope.TreeText(("The cat", "sleeps"), [(2, (0, 3)), (3, (4, 7)), (0, (0, 6, 1), True), (None, None)])
    asked = request_of(TrainStructuralProbeRequest, quantity="depth", rank=8)
    stored(
        request=with_trees(asked, text, dev=(), test=()),
        refused=[lambda: with_trees(asked, [], dev=(), test=()), lambda: with_trees(asked, ["a text"], dev=(), test=())],
    )


def test_structural_probes(stored) -> None:
    stage = structural.StructuralProbeProgress(stage=ProbeProgress.STAGE_TRAINING, done=1, total=40, best_dev_loss=0.5)
    result = StructuralProbeAssembler().add(report())
    dev = StructuralProbeAssembler().add(report(test=False))
    assert isinstance(result, bertscope.StructuralProbeResult) and isinstance(dev, bertscope.StructuralProbeResult)
    stored(
        progress=StructuralProbeAssembler().add(structural.TrainStructuralProbeResponse(progress=stage)),
        probes=result,
        scored=[dev.scored, lambda: result.layer(1)],
        printed=printed(print_structural_probe, result, [], width=160),
        document=document(result),
        figure=plot_structural_probe(result),
        broken=refusals(lambda messages: StructuralProbeAssembler().add(*messages), report()),
    )


def test_trees_of_a_treebank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    """Heads in a circle are no tree, and words of two pieces may have no place of their own."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"tree": TREE, "split": SPLIT, "roots": SPLIT.partition("\n\n")[2]}.items():
        Path(f"{name}.conllu").write_text(text, encoding="utf-8")
    found = {name: workbench.read_tree_conllu(f"{name}.conllu") for name in ("tree", "split")}
    stored(
        trees={name: list(texts) for name, texts in found.items()},
        problems={name: list(map(str, texts.problems)) for name, texts in found.items()},
        refused=lambda: workbench.read_tree_conllu("roots.conllu"),
    )
