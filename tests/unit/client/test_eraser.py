"""Erasers: the stream read, changes made of them, their table and output, the file, and broken replies."""

import io
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.eraser_replies import EraserAssembler
from bertscope.questions.probes.eraser_requests import train_eraser_request
from bertscope.questions.probes.probe_requests import with_erased_texts
from bertscope.v1 import representation_eraser_pb2 as erasers
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.values.vectors import tensor
from bertscope_workbench.command.commands.erase import document, print_eraser
from rich.console import Console

TEXTS = [bertscope.ProbeText("The cat sat", [("noun", 4, 7), ("verb", 8, 11)])]


def projection(rank: int) -> dict[str, Any]:
    arrays = {"left": np.arange(4.0 * rank).reshape(4, rank), "right": np.ones((rank, 4)), "mean": np.full(4, 0.5)}
    return {name: tensor(values.astype(np.float32)) for name, values in arrays.items()}


def eraser(layer: int, rank: int = 1) -> erasers.TrainEraserResponse:
    maps = {"projection": projection(rank), "random": projection(rank)} if rank else {}
    counts = {"correct_before": 18, "correct_after": 11, "correct_random": 17}
    return erasers.TrainEraserResponse(eraser=erasers.LayerEraser(layer=layer, rank=rank, **counts, **maps))


def report(**fields: Any) -> erasers.TrainEraserResponse:
    part = probes.ProbePart(texts=4, spans=20, label_spans=[11, 9], majority_correct=11, truncated_spans=2)
    usual: dict[str, Any] = {"train": part, "test": part, "hidden_size": 4, "seconds": 1.5}
    usual |= {"method": erasers.TrainEraserRequest.METHOD_LEACE, "pooling": probes.TrainProbeRequest.POOLING_MEAN}
    usual["provenance"] = {
        "model": "models/x",
        "weights_digest": "sha256:0",
        "library_versions": {"torch": "2"},
        "numbering": 1,
    }
    return erasers.TrainEraserResponse(report=erasers.EraserReport(**usual | fields))


def read(*messages: erasers.TrainEraserResponse) -> list[Any]:
    request = with_erased_texts(train_eraser_request(), TEXTS, test=(), labels=None)
    assembler = EraserAssembler(request)
    return [assembler.add(message) for message in messages]


def found(*ranks: int) -> bertscope.Eraser:
    result = read(*(eraser(layer, rank) for layer, rank in enumerate(ranks)), report())[-1]
    assert isinstance(result, bertscope.Eraser)
    return result


def test_the_request_has_labels_in_alphabetical_order_and_no_rank_unless_given() -> None:
    request = with_erased_texts(train_eraser_request(method="inlp", rank=3, seed=5), TEXTS, test=TEXTS, labels=None)
    assert (list(request.labels), request.rank, request.seed) == (["noun", "verb"], 3, 5)
    assert request.method == erasers.TrainEraserRequest.METHOD_INLP
    assert [span.label for span in request.test[0].spans] == [0, 1]
    assert train_eraser_request().rank == 0
    with pytest.raises(bertscope.InvalidArgument, match="train"):
        with_erased_texts(train_eraser_request(), [], test=(), labels=None)


def test_progress_then_the_maps_of_layers() -> None:
    stage = {"stage": probes.ProbeProgress.STAGE_TRAINING, "done": 1, "total": 2}
    progress, nothing, result = read(erasers.TrainEraserResponse(progress=stage), eraser(3, 2), report())
    assert progress == bertscope.ProbeProgress("training", 1, 2, 0)
    assert nothing is None
    own = result.layers[3]
    assert (own.rank, own.accuracy_before, own.accuracy_after, own.accuracy_random) == (2, 0.9, 0.55, 0.85)
    assert own.left.shape == own.random.left.shape == (4, 2)
    assert (result.method, result.pooling, result.majority_label, result.majority) == ("leace", "mean", "noun", 0.55)
    assert result.dev is None
    assert result.to_pandas().columns.tolist() == ["layer", "rank", "before", "after", "random"]


def test_a_change_is_the_map_at_the_state_of_the_layer() -> None:
    result = found(2, 1)
    for change, own in ((result.change(1, "masks"), result.layers[1]), (result.random_change(1), result.layers[1].random)):
        message = change.change.message().erase
        assert (change.site, change.layer) == ("state", 1)
        np.testing.assert_array_equal(np.frombuffer(message.left.data, "<f4"), own.left.ravel())
        np.testing.assert_array_equal(np.frombuffer(message.mean.data, "<f4"), own.mean)
    assert result.change(1, "masks").positions == "masks"
    assert result.random_change(0).positions == "all"


def test_layers_without_a_map_are_named() -> None:
    result = found(0)
    assert result.layers[0].rank == 0
    with pytest.raises(bertscope.InvalidArgument, match="nothing to erase"):
        result.change(0)
    with pytest.raises(KeyError, match="layer 7"):
        result.random_change(7)


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    result = found(2, 0, 1)
    result.save(tmp_path / "number.npz")
    again = bertscope.Eraser.load(tmp_path / "number.npz")
    assert again.rows() == result.rows()
    for name in (
        "labels",
        "method",
        "train",
        "dev",
        "test",
        "majority_label",
        "pooling",
        "hidden_size",
        "seconds",
        "provenance",
    ):
        assert getattr(again, name) == getattr(result, name)
    for layer, own in result.layers.items():
        for kept, sent in ((again.layers[layer], own), (again.layers[layer].random, own.random)):
            np.testing.assert_array_equal(kept.right, sent.right)
            np.testing.assert_array_equal(kept.mean, sent.mean)
        np.testing.assert_array_equal(again.layers[layer].left, own.left)


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    with (tmp_path / "other.npz").open("wb") as file:
        np.savez(file, layers=np.arange(2))
    with pytest.raises(bertscope.InvalidArgument, match=r"other\.npz: is not a file of erasers"):
        bertscope.Eraser.load(tmp_path / "other.npz")
    found(1, 1).save(tmp_path / "cut.npz")
    with np.load(tmp_path / "cut.npz") as kept, (tmp_path / "cut2.npz").open("wb") as file:
        np.savez(file, **{**kept, "left": kept["left"][:, :1]})
    with pytest.raises(bertscope.InvalidArgument, match="left: has shape"):
        bertscope.Eraser.load(tmp_path / "cut2.npz")


def test_the_output_has_the_table_and_the_most_frequent_class() -> None:
    screen = Console(file=io.StringIO(), width=120)
    print_eraser(screen, found(2, 1), [])
    printed = screen.file.getvalue()  # type: ignore[attr-defined]
    for expected in (
        "2 classes erased by LEACE",
        "20 words to train on",
        "90.0",
        "55.0",
        "85.0",
        "always 'noun'",
        "2 cut away",
    ):
        assert expected in printed
    assert document(found(1))["layers"] == [{"layer": 0, "rank": 1, "before": 0.9, "after": 0.55, "random": 0.85}]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([report()], "without scores"),
        ([eraser(0), report(test=probes.ProbePart())], "without scores"),
        ([eraser(0), report(majority_label=2)], "without scores"),
        ([eraser(0), report(hidden_size=5)], "a map of rank 1 of 5 dimensions"),
        ([erasers.TrainEraserResponse(eraser={"rank": 1}), report()], "as a matrix"),
    ],
)
def test_replies_that_break_the_contract(messages: list[erasers.TrainEraserResponse], said: str) -> None:
    with pytest.raises(bertscope.InvalidReply, match=said):
        read(*messages)
