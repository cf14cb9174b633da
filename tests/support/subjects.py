"""Fixtures: every architecture, by us and by transformers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.support.family import FAMILY, THREE
from tests.support.reference import Subject
from tests.support.tiny import ARCHITECTURES


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models gain nothing from more, and wait for each other's threads where other processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


on_three = pytest.mark.parametrize("subject", THREE, indirect=True)
"""Runs a test on the three architectures that differ most, because the code under test is the same for all; in `make test` on
BERT alone where nothing of it depends on the architecture. Parity with transformers is tested on all of them."""

everywhere = pytest.mark.parametrize("subject", FAMILY, indirect=True)
"""Runs a test on every architecture that is hosted, for parity with transformers."""


@pytest.fixture(scope="module", params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))
