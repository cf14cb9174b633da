"""Fixtures: every architecture, as a masked-LM and as a classifier."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.hosted import Hosted
from tests.support.subjects import one_thread
from tests.support.tiny import ARCHITECTURES, write_checkpoint

__all__ = ["one_thread"]


@pytest.fixture(scope="package")
def masked_lm(checkpoint: Callable[[str], Path]) -> Callable[[str], Hosted]:
    """By architecture; loaded once."""
    return cache(lambda architecture: Hosted(architecture, checkpoint(architecture)))


@pytest.fixture(scope="package")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Hosted]:
    """The same with three labels."""
    root = tmp_path_factory.mktemp("classifiers")
    return cache(lambda name: Hosted(name, write_checkpoint(name, root / name, labels=3), classifies=True))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def hosted(request: pytest.FixtureRequest, masked_lm: Callable[[str], Hosted]) -> Hosted:
    return masked_lm(request.param)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def labelled(request: pytest.FixtureRequest, classifier: Callable[[str], Hosted]) -> Hosted:
    return classifier(request.param)
