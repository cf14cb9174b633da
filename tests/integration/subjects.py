"""Fixtures: every architecture, by us and by transformers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.integration.encoders.reference import Subject
from tests.tiny import ARCHITECTURES


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models gain nothing from more, and wait for each other's threads where other processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))
