"""Fixtures: one thread for all, as transformers runs beside the server, clients, models that are warm at once, and servers."""

from collections.abc import Iterator
from pathlib import Path

import bertscope
import pytest
from bertscope_service.models import timed_runs

from tests.support.harness import Host, LoopThread, launched
from tests.support.plain import Plain
from tests.support.subjects import one_thread

__all__ = ["one_thread"]


@pytest.fixture
def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are warm after a few runs."""
    monkeypatch.setattr(timed_runs, "WARM_UP_SECONDS", 0.001)


@pytest.fixture
def client(host: Host) -> Iterator[bertscope.Client]:
    """Connected to the server of the fixture `host`."""
    with bertscope.Client(host.target) as connected:
        yield connected


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plain(model: str, checkpoints: dict[str, Path]) -> Plain:
    return Plain(checkpoints[model])


@pytest.fixture
def lab_client(lab: Host) -> Iterator[bertscope.Client]:
    with bertscope.Client(lab.target) as connected:
        yield connected


@pytest.fixture(scope="module")
def zoo(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    """Hosts the checkpoints of the module's own `folders` under their names; the first is the default."""
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as running:
        yield running
