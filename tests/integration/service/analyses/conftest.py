"""Fixtures: the architectures that differ most, by us and by transformers; see tests/support/subjects.py.

Questions see the encoder's seam alone, so three architectures are enough for them; what looks into layers runs on all.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from bertscope_service.encoders.base import Encoder

from tests.support.exports import load_exported
from tests.support.family import THREE
from tests.support.reference import Subject
from tests.support.subjects import one_thread

__all__ = ["one_thread", "subject"]


@pytest.fixture(scope="module", params=THREE)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@pytest.fixture(params=["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def encoder(request: pytest.FixtureRequest, subject: Subject) -> Encoder:
    """The subject's encoder, and its graphs, which take long to export."""
    if request.param == "torch":
        return subject.encoder
    return load_exported(subject.folder, request.getfixturevalue("export_cache"))
