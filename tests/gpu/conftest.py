"""What all tests on a GPU share."""

from collections.abc import Iterator

import pytest
import torch
from bertscope_service.encoders.torch import layer_graphs


@pytest.fixture(scope="module", autouse=True)
def full_float32() -> Iterator[None]:
    """TensorFloat-32 has 10 bits where float32 has 23."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture(scope="session", autouse=True)
def few_graphs(request: pytest.FixtureRequest) -> Iterator[None]:
    """A pretended kernel takes long about the sizes of graphs that a real one is for."""
    before = layer_graphs.SIZES
    if request.config.getoption("--pretend-gpu"):
        layer_graphs.SIZES = (64, 192, 320)
    yield
    layer_graphs.SIZES = before


@pytest.fixture(scope="module")
def pretended(request: pytest.FixtureRequest) -> None:
    """Skips tests of what a real GPU does not tell: its launches, and mistakes that it shows otherwise or not at all."""
    if not request.config.getoption("--pretend-gpu"):
        pytest.skip("needs --pretend-gpu")
