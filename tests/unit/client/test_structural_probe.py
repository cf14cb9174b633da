"""Structural probes: the treebank read, the request, the stream read, its table, its output, its figure, and broken replies."""

import io
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.structural_probes import (
    StructuralProbeAssembler,
    structural_columns,
    with_trees,
)
from bertscope.questions.probes.structural_requests import train_structural_probe_request
from bertscope.v1 import representation_structural_probes_pb2 as structural
from bertscope.v1.representation_probes_pb2 import ProbeProgress
from bertscope_workbench.command.commands.structural_probe import document, print_structural_probe
from bertscope_workbench.plots.structural_probes import plot_structural_probe
from rich.console import Console

TREE = """\
# text = The cat doesn't sleep.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t5\tnsubj\t_\t_
3\tdoes\tdo\tAUX\tVBZ\t_\t5\taux\t_\tSpaceAfter=No
4\tn't\tnot\tPART\tRB\t_\t5\tadvmod\t_\t_
5\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t5\tpunct\t_\t_

1\tround\tround\tX\tX\t_\t2\tdep\t_\t_
2\tround\tround\tX\tX\t_\t1\tdep\t_\t_
"""
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


def test_trees_of_a_treebank(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TREE, encoding="utf-8")
    found = bertscope.read_tree_conllu(path)
    (text,) = found
    assert [word.head for word in text.words] == [2, 5, 5, 5, 0, 5]
    assert [word.punctuation for word in text.words] == [False] * 5 + [True]
    assert len(found.problems) == 1  # heads in a circle
    path.write_text(SPLIT, encoding="utf-8")
    (text,) = bertscope.read_tree_conllu(path)
    assert [(word.head, word.span and word.span[:2]) for word in text.words] == [
        (3, (0, 2)),
        (3, None),
        (0, (3, 7)),
        (None, (7, 8)),
    ]
    path.write_text(SPLIT.partition("\n\n")[2], encoding="utf-8")
    with pytest.raises(bertscope.InvalidArgument, match="2 roots"):
        bertscope.read_tree_conllu(path)


def test_a_request_has_the_trees() -> None:
    text = bertscope.TreeText(("The cat", "sleeps"), [(2, (0, 3)), (3, (4, 7)), (0, (0, 6, 1), True), (None, None)])
    message = with_trees(train_structural_probe_request(quantity="depth", rank=8), text, dev=(), test=())
    words = message.train[0].words
    assert [word.head for word in words[:3]] == [2, 3, 0]
    assert words[2].HasField("head")
    assert not words[3].HasField("head")
    assert not words[3].HasField("span")
    assert (words[2].span.end, words[2].span.segment, words[2].punctuation) == (6, 1, True)
    assert (message.quantity, message.rank) == (structural.TrainStructuralProbeRequest.QUANTITY_DEPTH, 8)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("train", {"train": []}),
        ("train[0]", {"train": ["a text"]}),
        ("quantity", {"quantity": "height"}),
        ("rank", {"rank": 0}),
    ],
)
def test_what_cannot_be_sent(field: str, fields: dict[str, Any]) -> None:
    text = bertscope.TreeText("a b", [(0, (0, 1)), (1, (2, 3))])
    train = fields.pop("train", text)
    with pytest.raises(bertscope.InvalidArgument) as error:
        with_trees(train_structural_probe_request(**fields), train, dev=(), test=())
    assert error.value.field_violations[0].field == field


def test_a_stream_becomes_progress_and_a_result() -> None:
    stage = structural.StructuralProbeProgress(stage=ProbeProgress.STAGE_TRAINING, done=1, total=40, best_dev_loss=0.5)
    assembler = StructuralProbeAssembler()
    progress = assembler.add(structural.TrainStructuralProbeResponse(progress=stage))
    assert progress == bertscope.StructuralProbeProgress("training", 1, 40, 0.5)
    result = assembler.add(report())
    assert isinstance(result, bertscope.StructuralProbeResult)
    best = result.layer(2)
    assert (best.score, best.control_score, best.spread) == (0.75, 0.25, (0.75, 0.75))
    assert (best.spearman, best.control_spearman) == (pytest.approx(0.6), pytest.approx(0.2))
    assert (result.chain_score, result.quantity, result.pooling, result.seeds) == (0.375, "distance", "mean", (3, 3))
    with pytest.raises(KeyError):
        result.layer(1)
    assert list(result.to_pandas().columns) == list(structural_columns(result))
    dev = assembler.add(report(test=False))
    assert isinstance(dev, bertscope.StructuralProbeResult)
    assert dev.scored == "dev"


def test_a_report_without_scores_breaks_the_contract() -> None:
    with pytest.raises(bertscope.InvalidReply):
        StructuralProbeAssembler().add(report(layers=[]))


def test_output_and_figure() -> None:
    result = StructuralProbeAssembler().add(report())
    assert isinstance(result, bertscope.StructuralProbeResult)
    screen = Console(file=io.StringIO(), width=160)
    print_structural_probe(screen, result, [])
    text = screen.file.getvalue()
    assert "2 *" in text
    assert "75.0 %" in text
    assert "words in a chain: UUAS 37.5 %, DSpr. 0.300" in text
    assert "1 without a piece" in text
    assert document(result)["layers"][1]["control_score"] == 0.25
    left, right = plot_structural_probe(result).axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), [62.5, 75])
    np.testing.assert_allclose(right.lines[1].get_ydata(), [0.2, 0.2])
