"""Fixtures that tests of every kind share."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def export_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where servers and tests keep exported graphs. Each tiny checkpoint is exported once, by all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "export-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTSCOPE_CACHE_FOLDER", str(folder))
        yield folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an architecture's tiny checkpoint, written once. Nobody may change it."""

    @cache
    def folder(architecture: str) -> Path:
        from tests.support.tiny import write_checkpoint  # transformers takes seconds to import, and few tests need it

        return write_checkpoint(architecture, tmp_path_factory.mktemp("checkpoints") / architecture)

    return folder
