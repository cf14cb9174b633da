"""ONNX Runtime's sessions on a GPU: on PyTorch's stream, so that nobody waits for them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs onnxruntime-gpu")

import onnx
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings, shrinking

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu import driver
from tests.support.pretended_gpu.recording import watching

pytestmark = pytest.mark.usefixtures("onnx_on_cuda")


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
