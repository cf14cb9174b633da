"""What all tests on a GPU share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def full_float32() -> Iterator[None]:
    """TensorFloat-32 has 10 bits where float32 has 23."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)
