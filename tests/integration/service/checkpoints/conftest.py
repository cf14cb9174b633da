"""Fixtures: copies of tiny checkpoints that may be changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def copy(checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """The folder of an architecture's tiny checkpoint, as a test's own."""

    def made(architecture: str) -> Path:
        return Path(shutil.copytree(checkpoint(architecture), tmp_path / "lying"))

    return made
