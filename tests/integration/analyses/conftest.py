"""Fixtures: the architectures that differ most, by us and by transformers; see tests/support/subjects.py.

Questions see the encoder's seam alone, so three architectures are enough for them; what looks into layers runs on all.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.family import THREE
from tests.support.reference import Subject
from tests.support.subjects import one_thread

__all__ = ["one_thread", "subject"]


@pytest.fixture(scope="module", params=THREE)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))
