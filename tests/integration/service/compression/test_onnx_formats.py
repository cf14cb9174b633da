"""Quantised graphs: close to what they were made from, and smaller."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from bertscope_service.analyses.observers.site_vectors import see
from bertscope_service.checkpoints.manifest import read_manifest
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, KeepLayers, Step, WeightOnly, grown
from bertscope_service.encoders.base import ChangesSites, Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.gating import enter
from bertscope_service.encoders.onnx import sessions
from bertscope_service.encoders.onnx.values import ANALYSIS, FAST
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change, Place, Site
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from tests.support.compressed import make
from tests.support.reference import all_logits

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


@torch.inference_mode()
def changed(
    encoder: Encoder, *changes: Change, heads: tuple[int, ...] = (), rows: Sequence[TokenSequence] = ROWS[:1]
) -> torch.Tensor:
    """Logits of all tokens of rows of one length, by the analysis graph, with changes and closed heads of layer 1."""
    keep = np.ones((encoder.shape.layers, encoder.shape.heads), np.float32)
    keep[1, list(heads)] = 0
    state = encoder.begin(rows)
    edits = encoder.place_edits([Edits(keep, np.zeros_like(keep), changes=changes).at(row) for row in rows])
    assert edits is not None
    seen = list[torch.Tensor]()
    enter(state, edits, kept=False)
    encoder.advance(state, encoder.shape.layers, edits, watch={1: seen.append})  # so that the analysis graph runs
    return all_logits(encoder, state)


@torch.inference_mode()
def vectors(encoder: Encoder, row: TokenSequence, place: Place, *changes: Change) -> torch.Tensor:
    keep = np.ones((encoder.shape.layers, encoder.shape.heads), np.float32)
    state = encoder.begin([row])
    edits = encoder.place_edits([Edits(keep, np.zeros_like(keep), changes=changes).at(row)])
    return see(encoder, state, edits, [place])[0].flatten(2)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_quantised_graphs_change_sites(quantised: Callable[[Step], Path], tmp_path: Path, name: str) -> None:
    """States, heads and attention in every format; what is inside the graph's rounding is refused by name."""
    asked = RuntimeRequest("onnx", "fp32", torch.device("cpu"))
    (encoder,) = read_encoders(inspect(quantised(FORMATS[name][0])), "", asked, RuntimeSettings(tmp_path, threads=1))
    assert isinstance(encoder, ChangesSites)
    row, other = ROWS[0], TokenSequence(list(range(20, 32)), [0] * 12)
    plain = changed(encoder)
    silenced = Change(Site.HEAD_OUTPUT, 1, units=np.array([1, 2]), keep=0.0)
    torch.testing.assert_close(changed(encoder, silenced), changed(encoder, heads=(1, 2)), rtol=0, atol=1e-5)
    taken = vectors(encoder, other, (Site.STATE, 1)).numpy()
    state = Change(Site.STATE, 1, keep=0.0, add=taken)
    torch.testing.assert_close(changed(encoder, state), changed(encoder, rows=[other]), rtol=0, atol=1e-4)
    some, every = np.array([2, 5]), np.arange(len(row))
    blocked = Change(Site.ATTENTION, 1, some, np.array([1, 2]), keys=every)
    closed = Change(Site.HEAD_OUTPUT, 1, some, np.array([1, 2]), 0.0)
    torch.testing.assert_close(changed(encoder, blocked), changed(encoder, closed), rtol=0, atol=1e-4)
    assert float((changed(encoder, blocked) - plain).abs().max()) > 1e-3
    inner = (Site.ATTENTION_OUTPUT, Site.ACTIVATIONS, Site.FEED_FORWARD_OUTPUT)
    if name == "int8":
        assert all("load the model that it was made from" in (encoder.site_refusal(site, 1) or "") for site in inner)
        return
    assert [encoder.site_refusal(site, layer) for site in inner for layer in range(2)] == [None] * 6
    # What is left of a block whose activations are 0 is its bias, and of attention without contexts its own.
    empty = vectors(encoder, row, (Site.FEED_FORWARD_OUTPUT, 1), Change(Site.ACTIVATIONS, 1, keep=0.0))
    assert float((empty - empty[0]).abs().max()) < 1e-5
    bias = vectors(encoder, row, (Site.ATTENTION_OUTPUT, 1), Change(Site.HEAD_OUTPUT, 1, keep=0.0))
    assert float((bias - bias[0]).abs().max()) < 1e-5
    assert float((changed(encoder, Change(Site.FEED_FORWARD_OUTPUT, 1, some, keep=0.0)) - plain).abs().max()) > 1e-3


def test_a_step_that_makes_weights_larger_says_so() -> None:
    assert grown(45.5e6, 90.3e6) == "; WARNING: larger than before, 90.3 MB from 45.5 MB"
    assert grown(45.5e6, 45.5e6) == ""


@pytest.mark.parametrize(("step", "refused"), [("int8", True), ("weight_only", False)])
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
