"""What all tests on a GPU share."""

from collections.abc import Iterator

import pytest
import torch
from bertscope_service.encoders.torch import graph_rooms
from bertscope_service.encoders.torch.graph_rooms import RoomSize
from bertscope_service.models.precisions import set_float32_products


@pytest.fixture(scope="session", autouse=True)
def device() -> None:
    """Skips all tests of this folder where there is no CUDA device, a real or a pretended one."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(scope="module", autouse=True)
def full_float32() -> None:
    """TensorFloat-32 has 10 bits where float32 has 23."""
    set_float32_products(tf32=False)


@pytest.fixture(scope="session", autouse=True)
def few_graphs(request: pytest.FixtureRequest) -> Iterator[None]:
    """A pretended kernel takes long about the sizes of graphs that a real one is for."""
    before = graph_rooms.ROOMS
    if request.config.getoption("--pretend-gpu"):
        graph_rooms.ROOMS = (RoomSize(64, 8, 12), RoomSize(64, 2, 24), RoomSize(192, 12, 24), RoomSize(320, 80, 24))
    yield
    graph_rooms.ROOMS = before


@pytest.fixture(scope="module")
def pretended(request: pytest.FixtureRequest) -> None:
    """Skips tests of what a real GPU does not tell: its launches, and mistakes that it shows otherwise or not at all."""
    if not request.config.getoption("--pretend-gpu"):
        pytest.skip("needs --pretend-gpu")


@pytest.fixture(scope="session")
def onnx_on_cuda(request: pytest.FixtureRequest) -> None:
    """Skips tests of ONNX Runtime on CUDA where its build has no such provider; a pretended one needs none."""
    import onnxruntime

    if not request.config.getoption("--pretend-gpu") and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("needs onnxruntime-gpu: this onnxruntime has no CUDAExecutionProvider")
