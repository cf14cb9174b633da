"""ONNX Runtime on a GPU: the numbers of the CPU, and never the CPU instead; on PyTorch's stream, so that nobody waits."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.reference import Subject, assert_close

pytest.importorskip("onnxruntime", reason="needs onnxruntime-gpu")
pytest.importorskip("onnxscript", reason="needs onnxscript to export")

import onnx
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings, shrinking
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from tests.support.on_gpu import DEVICE, rows_of, some_gates
from tests.support.pretended_gpu import driver
from tests.support.pretended_gpu.recording import watching

pytestmark = pytest.mark.usefixtures("onnx_on_cuda")


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@pytest.fixture(scope="module")
def encoder(subject: Subject, export_cache: Path) -> OnnxEncoder:
    source, asked = inspect(subject.folder), RuntimeRequest("onnx", "fp32", DEVICE)
    (found,) = read_encoders(source, source.digest(lambda _: None), asked, RuntimeSettings(export_cache))
    assert isinstance(found, OnnxEncoder)
    return found


@pytest.mark.parametrize(("watch", "gated"), [(False, True), (True, False)])
def test_same_numbers_as_on_the_cpu(subject: Subject, encoder: OnnxEncoder, watch: bool, gated: bool) -> None:
    gates = some_gates(subject) if gated else None
    found = rows_of(subject.run(subject.sequences, gates, encoder=encoder, watch=watch))
    expected = rows_of(subject.run(subject.sequences, gates, watch=watch))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, 1e-4)


@torch.inference_mode()
def test_fast_graph_leaves_its_tensors_on_the_gpu(subject: Subject, encoder: OnnxEncoder) -> None:
    batch = subject.sequences[:4]
    only = torch.zeros((len(batch), 1), dtype=torch.int64, device=DEVICE)
    state = encoder.begin(batch)
    encoder.advance(state, encoder.shape.layers, only=only)
    index = torch.zeros(len(batch), dtype=torch.int64, device=DEVICE)
    logits = encoder.logits(state, torch.arange(len(batch), device=DEVICE), index)
    assert state.hidden.device == logits.device == DEVICE
    for row, sequence in enumerate(batch):
        assert_close([logits[row].cpu()], [subject.reference.run([sequence]).logits[0, 0]], 1e-3)


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A graph that doubles its input."""
    value = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in ("once", "twice")]
    node = onnx.helper.make_node("Add", ["once", "once"], ["twice"])
    graph = onnx.helper.make_graph([node], "doubling", value[:1], value[1:])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return Session(model, SessionSettings(DEVICE, tmp_path_factory.mktemp("weights")))


def run(session: Session) -> list[float]:
    """Runs a session on what PyTorch has just made, and lets PyTorch read what it makes."""
    once = torch.full((3,), 2.0, dtype=torch.float32, device=DEVICE) + 1
    return (session.run({"once": once}, {"twice": (3,)})["twice"] + 1).tolist()


def test_results_are_read_in_the_order_of_the_stream(doubling: Session) -> None:
    assert [run(doubling) for _ in range(20)] == [[7.0] * 3] * 20


@pytest.mark.usefixtures("pretended")
def test_nobody_waits_for_a_session(doubling: Session) -> None:
    with watching() as seen:
        run(doubling)
    assert Counter(what for what, _ in seen.waits) == {"tolist": 1}, str(seen)


@pytest.mark.usefixtures("pretended")
def test_a_session_that_returns_its_memory_is_waited_for(doubling: Session) -> None:
    with watching() as seen, shrinking():
        run(doubling)
    assert Counter(what for what, _ in seen.waits) == {"end of a session": 1, "tolist": 1}


@pytest.mark.usefixtures("pretended")
def test_on_another_stream_of_pytorch_both_wait(doubling: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver.Stream, "cuda_stream", 7)
    with watching() as seen:
        run(doubling)
    assert Counter(what for what, _ in seen.waits) == {"stream": 1, "outputs of a session": 1, "tolist": 1}
