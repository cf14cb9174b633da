"""ONNX Runtime on a GPU: the numbers of the CPU, and never the CPU instead."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.reference import Subject, assert_close

pytest.importorskip("onnxruntime", reason="needs onnxruntime-gpu")
pytest.importorskip("onnxscript", reason="needs onnxscript to export")

from bertscope_service.checkpoints.sources import inspect
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from tests.support.on_gpu import DEVICE, rows_of, some_gates

pytestmark = pytest.mark.usefixtures("onnx_on_cuda")


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@pytest.fixture(scope="module")
def onnx(subject: Subject, export_cache: Path) -> OnnxEncoder:
    source, asked = inspect(subject.folder), RuntimeRequest("onnx", "fp32", DEVICE)
    (encoder,) = read_encoders(source, source.digest(lambda _: None), asked, RuntimeSettings(export_cache))
    assert isinstance(encoder, OnnxEncoder)
    return encoder


@pytest.mark.parametrize(("watch", "gated"), [(False, True), (True, False)])
def test_same_numbers_as_on_the_cpu(subject: Subject, onnx: OnnxEncoder, watch: bool, gated: bool) -> None:
    gates = some_gates(subject) if gated else None
    found = rows_of(subject.run(subject.sequences, gates, encoder=onnx, watch=watch))
    expected = rows_of(subject.run(subject.sequences, gates, watch=watch))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, 1e-4)


@torch.inference_mode()
def test_fast_graph_leaves_its_tensors_on_the_gpu(subject: Subject, onnx: OnnxEncoder) -> None:
    batch = subject.sequences[:4]
    only = torch.zeros((len(batch), 1), dtype=torch.int64, device=DEVICE)
    state = onnx.begin(batch)
    onnx.advance(state, onnx.shape.layers, only=only)
    index = torch.zeros(len(batch), dtype=torch.int64, device=DEVICE)
    logits = onnx.logits(state, torch.arange(len(batch), device=DEVICE), index)
    assert state.hidden.device == logits.device == DEVICE
    for row, sequence in enumerate(batch):
        assert_close([logits[row].cpu()], [subject.reference.run([sequence]).logits[0, 0]], 1e-3)
