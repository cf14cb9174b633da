"""Fixtures: every architecture whose heads can be removed, as a masked-LM and as a classifier."""

from pathlib import Path

import pytest

from tests.integration.compression.pruned import Whole
from tests.integration.subjects import one_thread
from tests.tiny import ARCHITECTURES, write_checkpoint

__all__ = ["one_thread"]

PRUNABLE = [architecture for architecture in ARCHITECTURES if architecture != "albert"]


@pytest.fixture(
    scope="module", params=[(name, labels) for name in PRUNABLE for labels in (0, 3)], ids=lambda it: f"{it[0]}-{it[1]}"
)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    architecture, labels = request.param
    root = tmp_path_factory.mktemp("pruned")
    return Whole(architecture, write_checkpoint(architecture, root / "whole", labels=labels), root)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT masked-LM that nobody may change."""
    return write_checkpoint("bert", tmp_path_factory.mktemp("bert") / "whole")
