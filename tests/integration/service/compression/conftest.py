"""Fixtures: every architecture whose heads can be removed, as a masked-LM and as a classifier."""

from pathlib import Path

import pytest

from tests.support.pruned import Whole
from tests.support.subjects import one_thread
from tests.support.tiny import ARCHITECTURES, write_checkpoint

__all__ = ["one_thread"]

PRUNABLE = [architecture for architecture in ARCHITECTURES if architecture != "albert"]
WHOLE = [*((name, 0) for name in PRUNABLE), *((name, 3) for name in ("bert", "distilbert", "modernbert"))]
"""Architectures, each with its number of labels, or 0 for a masked-LM."""


@pytest.fixture(scope="module", params=WHOLE, ids=lambda it: f"{it[0]}-{it[1]}")
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    architecture, labels = request.param
    root = tmp_path_factory.mktemp("pruned")
    return Whole(architecture, write_checkpoint(architecture, root / "whole", labels=labels), root)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT masked-LM that nobody may change."""
    return write_checkpoint("bert", tmp_path_factory.mktemp("bert") / "whole")
