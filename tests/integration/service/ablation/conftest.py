"""Fixtures: every architecture as a masked-LM."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.hosted import Hosted
from tests.support.subjects import one_thread
from tests.support.tiny import ARCHITECTURES

__all__ = ["one_thread"]


@pytest.fixture(scope="package")
def masked_lm(checkpoint: Callable[[str], Path]) -> Callable[[str], Hosted]:
    """By architecture; loaded once."""
    return cache(lambda architecture: Hosted(architecture, checkpoint(architecture)))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def hosted(request: pytest.FixtureRequest, masked_lm: Callable[[str], Hosted]) -> Hosted:
    return masked_lm(request.param)
