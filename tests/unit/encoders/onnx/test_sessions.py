"""What ONNX Runtime is handed: buffers of the right size, whatever the defaults of the process are."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
import torch
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings
from bertscope_service.errors import FailedPrecondition


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph that returns twice what it gets."""
    form = onnx.TensorProto.FLOAT
    x, y = (onnx.helper.make_tensor_value_info(name, form, ["n"]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "x"], ["y"])], "twice", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    return Session(model, SessionSettings(torch.device("cpu"), tmp_path, threads=1))


@pytest.fixture(params=[torch.float16, torch.float64], ids=str)
def default_dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """Another default number format, as a library may set it in another thread."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def test_outputs_are_float32_whatever_the_default_number_format_is(session: Session, default_dtype: torch.dtype) -> None:
    # Few enough that a buffer of half the size is still inside its allocation.
    found = session.run({"x": torch.tensor([1.0, 2.0, 3.0], dtype=torch.float32)}, {"y": (3,)})["y"]
    assert found.dtype is torch.float32
    assert found.tolist() == [2.0, 4.0, 6.0]


def test_an_output_of_another_size_than_its_buffer_is_refused(session: Session) -> None:
    with pytest.raises(FailedPrecondition, match="can't be run"):
        session.run({"x": torch.ones(5, dtype=torch.float32)}, {"y": (2,)})


def test_inputs_may_have_any_layout_and_number_format(session: Session) -> None:
    strided = torch.arange(6, dtype=torch.float64)[::2]
    assert session.run({"x": strided}, {"y": (3,)})["y"].tolist() == [0.0, 4.0, 8.0]
