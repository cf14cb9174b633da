"""Fixtures that tests of every kind share."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an architecture's tiny checkpoint, written once. Nobody may change it."""

    @cache
    def folder(architecture: str) -> Path:
        from tests.tiny import write_checkpoint  # transformers takes seconds to import, and few tests need it

        return write_checkpoint(architecture, tmp_path_factory.mktemp("checkpoints") / architecture)

    return folder
