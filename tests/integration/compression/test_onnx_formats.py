"""Quantised graphs: close to what they were made from, and smaller."""

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from bertscope_service.checkpoints.manifest import read_manifest
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, KeepLayers, Step, WeightOnly, grown
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx import sessions
from bertscope_service.encoders.onnx.values import ANALYSIS, FAST
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from tests.support.compressed import make

FORMATS: dict[str, tuple[Step, float]] = {"int8": (Int8(), 0.98), "weight_only": (WeightOnly(8, 32), 0.99)}
"""A step, and how close the logits' directions stay: one that reads a wrong matrix is at 0."""

ROWS = [TokenSequence(list(range(5, 17)), [0] * 12), TokenSequence([7, 9, 30, 12, 8], [0, 0, 0, 1, 1])]


@torch.inference_mode()
def logits(encoder: Encoder) -> torch.Tensor:
    """At three positions of each row, by the fast graph."""
    state = encoder.begin(ROWS)
    encoder.advance(state, encoder.shape.layers, only=torch.tensor([[0, 1, 2], [0, 3, 4]]))
    return encoder.logits(state, torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, 2, 0, 1, 2]))


@torch.inference_mode()
def watched(encoder: Encoder) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Logits at the first position and all maps, by the analysis graph."""
    state, maps = encoder.begin(ROWS[:1]), list[torch.Tensor]()
    encoder.advance(state, encoder.shape.layers, watch={1: lambda seen: maps.append(seen.clone())})
    return encoder.logits(state, torch.tensor([0]), torch.tensor([0])), maps


def wide(tensor: onnx.TensorProto) -> bool:
    """Whether it is a matrix of weights in float32, that no step has touched; scales of blocks are smaller."""
    return tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2 and min(tensor.dims) >= 32


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_quantised_graphs_stay_close(
    checkpoint: Callable[[str], Path], quantised: Callable[[Step], Path], tmp_path: Path, name: str
) -> None:
    step, close = FORMATS[name]
    made, cpu = quantised(step), torch.device("cpu")
    whole = make(checkpoint("bert"), tmp_path / "whole", KeepLayers((0, 1)))
    settings = RuntimeSettings(tmp_path, threads=1)
    (found,) = read_encoders(inspect(made), "", RuntimeRequest("onnx", "fp32", cpu), settings)
    (expected,) = read_encoders(inspect(whole), "", RuntimeRequest("torch", "fp32", cpu), settings)
    assert (found.precision, found.shape.layers) == (name, 2)
    assert float(torch.cosine_similarity(logits(found), logits(expected)).min()) > close
    (seen, maps), (untouched, true_maps) = watched(found), watched(expected)
    assert float(torch.cosine_similarity(seen, untouched).min()) > close
    assert float((maps[0] - true_maps[0]).abs().mean()) < 0.03
    manifest = read_manifest(made)
    assert manifest is not None
    assert [done.step for done in manifest.steps] == ["layers", "onnx", name]
    graphs = [onnx.load(str(made / file), load_external_data=False) for file in (FAST, ANALYSIS)]
    left = [tensor.name for graph in graphs for tensor in graph.graph.initializer if wide(tensor)]
    assert left == []
    assert "DynamicQuantizeLinear" not in {node.op_type for graph in graphs for node in graph.graph.node}
    numbers = manifest.steps[-1].numbers
    assert numbers["bytes_after"] == (made / "weights.bin").stat().st_size
    assert ("WARNING" in manifest.steps[-1].description) == (numbers["bytes_after"] > numbers["bytes_before"])
    assert not (made / "checkpoint").exists()


@pytest.mark.slow
def test_unsigned_weights_give_the_same_numbers(
    quantised: Callable[[Step], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a CPU whose products of unsigned by signed bytes overflow."""
    made, asked, settings = (
        quantised(Int8()),
        RuntimeRequest("onnx", "fp32", torch.device("cpu")),
        RuntimeSettings(tmp_path, threads=1),
    )
    entries = list[tuple[str, str]]()
    add = onnxruntime.SessionOptions.add_session_config_entry
    monkeypatch.setattr(
        onnxruntime.SessionOptions,
        "add_session_config_entry",
        lambda options, *entry: (entries.append(entry), add(options, *entry)),
    )
    (usual,) = read_encoders(inspect(made), "", asked, settings)
    expected = logits(usual), watched(usual)
    assert ((sessions.UNSIGNED_WEIGHTS, "1") in entries) == (not sessions.adds_bytes_exactly())
    monkeypatch.setattr(sessions, "adds_bytes_exactly", lambda: False)
    (unsigned,) = read_encoders(inspect(made), "", asked, settings)
    assert torch.equal(logits(unsigned), expected[0])
    found = watched(unsigned)
    assert torch.equal(found[0], expected[1][0])
    assert torch.equal(found[1][0], expected[1][1][0])
    assert (sessions.UNSIGNED_WEIGHTS, "1") in entries


def test_a_step_that_makes_weights_larger_says_so() -> None:
    assert grown(45.5e6, 90.3e6) == "; WARNING: larger than before, 90.3 MB from 45.5 MB"
    assert grown(45.5e6, 45.5e6) == ""


@pytest.mark.parametrize(("step", "refused"), [("int8", True), ("weight_only", False), ("onnx", False)])
def test_int8_graphs_of_the_format_before_are_refused_by_name(tmp_path: Path, step: str, refused: bool) -> None:
    """Their answers depended on the texts that shared a batch."""
    content = {
        "format": 2,
        "runtime": "onnx",
        "source_digest": "sha256:0",
        "steps": [{"step": step, "description": "", "numbers": {}}],
        "versions": {},
        "details": {},
    }
    (tmp_path / "bertscope.json").write_text(json.dumps(content))
    if refused:
        with pytest.raises(FailedPrecondition, match="compress the model again") as error:
            read_manifest(tmp_path)
        assert error.value.reason == "SOURCE_UNREADABLE"
    else:
        assert read_manifest(tmp_path) is not None
