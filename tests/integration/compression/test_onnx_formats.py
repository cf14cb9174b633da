"""Quantised graphs: close to what they were made from, and smaller."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bertscope_service.compression.compress import compress
from bertscope_service.compression.manifest import read_manifest
from bertscope_service.compression.onnx_quantize import quiet
from bertscope_service.compression.steps import Int8, KeepLayers, OnnxExport, Step, WeightOnly
from bertscope_service.encoders.base import Encoder, TokenSequence
from bertscope_service.runtimes import Asked, RuntimeSettings, read_encoders
from bertscope_service.sources import inspect

FORMATS: dict[str, tuple[Step, float]] = {"int8": (Int8(), 0.98), "weight_only": (WeightOnly(8, 32), 0.99)}
"""A step, and how close the logits' directions stay: one that reads a wrong matrix is at 0."""

ROWS = [TokenSequence(list(range(5, 17)), [0] * 12), TokenSequence([7, 9, 30, 12, 8], [0, 0, 0, 1, 1])]


def test_quantisers_are_silenced_and_nobody_else(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time, too, and in a program that has not set its logs up."""
    root = logging.getLogger()
    first, second = quiet(), quiet()
    with first:
        second.__enter__()
    logging.warning("please run pre-processing")  # as they do
    logging.getLogger("bertscope_service").warning("disk is slow")
    second.__exit__(None, None, None)
    logging.warning("of a caller")
    assert caplog.messages == ["disk is slow", "of a caller"]
    level = root.level
    monkeypatch.setattr(root, "handlers", [])
    with quiet():
        logging.basicConfig(level=logging.DEBUG)
    assert (root.handlers, root.level, root.filters) == ([], level, [])


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


@pytest.mark.parametrize("name", FORMATS)
def test_quantised_graphs_stay_close(checkpoint: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    step, close = FORMATS[name]
    source, cpu = inspect(checkpoint("bert")), torch.device("cpu")
    digest = source.digest(lambda _: None)
    steps = (KeepLayers((0, 1)), OnnxExport(), step)
    compress(source, steps, tmp_path / "made", lambda _: None, digest)
    compress(source, steps[:1], tmp_path / "whole", lambda _: None, digest)
    settings = RuntimeSettings(tmp_path, threads=1)
    made, whole = inspect(tmp_path / "made"), inspect(tmp_path / "whole")
    (found,) = read_encoders(made, digest, Asked("onnx", "fp32", cpu), settings)
    (expected,) = read_encoders(whole, digest, Asked("torch", "fp32", cpu), settings)
    assert (found.precision, found.shape.layers) == (name, 2)
    assert float(torch.cosine_similarity(logits(found), logits(expected)).min()) > close
    (seen, maps), (untouched, true_maps) = watched(found), watched(expected)
    assert float(torch.cosine_similarity(seen, untouched).min()) > close
    assert float((maps[0] - true_maps[0]).abs().mean()) < 0.03
    manifest = read_manifest(tmp_path / "made")
    assert manifest is not None
    assert [done.step for done in manifest.steps] == ["layers", "onnx", name]
    numbers = manifest.steps[-1].numbers
    assert numbers["bytes_after"] == (tmp_path / "made" / "weights.bin").stat().st_size
    assert not (tmp_path / "made" / "checkpoint").exists()
