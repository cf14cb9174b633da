"""Erasers: the stream read, changes made of them, their table and output, the file, and broken replies."""

from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.erasers import EraserAssembler
from bertscope.questions.probes.probe_messages import with_erased_texts
from bertscope.v1 import representation_eraser_pb2 as erasers
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1.representation_eraser_pb2 import TrainEraserRequest
from bertscope.values.requests import request_of
from bertscope.values.vectors import tensor
from bertscope_workbench.command.commands.erase import document, print_eraser

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import printed

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
    source = {"model": "models/x", "weights_digest": "sha256:0", "library_versions": {"torch": "2"}, "numbering": 1}
    usual["provenance"] = source
    return erasers.TrainEraserResponse(report=erasers.EraserReport(**usual | fields))


def read(*messages: erasers.TrainEraserResponse) -> list[Any]:
    request = with_erased_texts(TrainEraserRequest(), TEXTS, test=(), labels=None)
    assembler = EraserAssembler(request)
    return [assembler.add(message) for message in messages]


def found(*ranks: int) -> bertscope.Eraser:
    result = read(*(eraser(layer, rank) for layer, rank in enumerate(ranks)), report())[-1]
    assert isinstance(result, bertscope.Eraser)
    return result


def test_layers_without_a_map_are_named() -> None:
    result = found(0)
    assert result.layers[0].rank == 0
    with pytest.raises(bertscope.InvalidArgument, match="nothing to erase"):
        result.change(0)
    with pytest.raises(KeyError, match="layer 7"):
        result.random_change(7)


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


def test_an_eraser(stored, tmp_path: Path) -> None:
    stage = {"stage": probes.ProbeProgress.STAGE_TRAINING, "done": 1, "total": 2}
    sent = erasers.TrainEraserResponse(progress=stage), eraser(3, 2), eraser(4, 0), report()
    *events, result = read(*sent)
    result.save(tmp_path / "number.npz")
    stored(
        request=with_erased_texts(
            request_of(TrainEraserRequest, method="inlp", rank=3, seed=5), TEXTS, test=TEXTS, labels=None
        ),
        events=events,
        eraser=result,
        from_a_file=bertscope.Eraser.load(tmp_path / "number.npz"),
        printed=printed(print_eraser, result, []),
        document=document(result),
        broken=refusals(lambda messages: read(*messages)[-1], eraser(3, 1), report()),
        without_texts=lambda: with_erased_texts(TrainEraserRequest(), [], test=(), labels=None),
    )
