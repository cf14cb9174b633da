"""Fixtures: every architecture, by us and by transformers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.support.reference import Subject
from tests.support.tiny import ARCHITECTURES, FAMILY


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models gain nothing from more, and wait for each other's threads where other processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


THREE = ("bert", "albert", "modernbert")
"""The architectures that differ most. BERT is the plain one, ALBERT shares one layer below narrow embeddings, and ModernBERT
has rotary positions, windows and no biases."""

on_three = pytest.mark.parametrize("subject", THREE, indirect=True)
"""Runs a test on three architectures, because the code under test is the same for all. Parity with transformers is tested on
all of them."""

on_bert_first = pytest.mark.parametrize(
    "subject", [name if name == "bert" else pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES], indirect=True
)
"""Runs a slow test on all architectures, and in `make test` on BERT."""


everywhere = pytest.mark.parametrize("subject", FAMILY, indirect=True)
"""Runs a test on every architecture that is hosted, for parity with transformers."""


@pytest.fixture(scope="module", params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))
