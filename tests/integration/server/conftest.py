"""Fixtures: tiny checkpoints, and one server that hosts them for all tests that leave it as they found it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import cloze_pb2 as cloze

from tests.integration.server.harness import Host, LoopThread, launched
from tests.integration.server.sites import Site
from tests.tiny import write_checkpoint

GOOD_TEXT = "Paris is the capital of [MASK]."


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders by model id: two architectures, and one without a masked-LM head."""
    root = tmp_path_factory.mktemp("checkpoints")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folders = {name: write_checkpoint(name, root / name) for name in ("bert", "roberta")}
    folders["headless"] = write_checkpoint("bert", root / "headless", head=False)
    torch.set_num_threads(threads)
    return folders


@pytest.fixture(scope="session")
def host(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert (the default), models/roberta and models/headless."""
    with launched(loop, model=[f"{name}={folder}" for name, folder in checkpoints.items()]) as running:
        yield running


@pytest.fixture(scope="session")
def sorters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders by model id: a classifier of three labels, and one of two whose tokens have no segments."""
    root = tmp_path_factory.mktemp("sorters")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folders = {
        "sorter": write_checkpoint("bert", root / "sorter", labels=3),
        "distilled": write_checkpoint("distilbert", root / "distilled", labels=2),
    }
    torch.set_num_threads(threads)
    return folders


@pytest.fixture(scope="session")
def lab(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert (the default), models/roberta and models/headless, and models/sorter and models/distilled, which
    classify."""
    with launched(loop, model=[f"{name}={folder}" for name, folder in (checkpoints | sorters).items()]) as running:
        yield running


@pytest.fixture
def launch(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Callable[..., Host]]:
    """Starts servers of a test's own, with models/bert unless told otherwise."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Host:
            settings.setdefault("model", [f"bert={checkpoints['bert']}"])
            return stack.enter_context(launched(loop, **settings))

        yield start


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Certificates of a server of one module's own, which the module may renew."""
    return Site(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def mutual_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The same of a server that asks for its clients' certificates."""
    return Site(tmp_path_factory.mktemp("mutual"))


@pytest.fixture(scope="session")
def check_alive() -> Callable[[Host], None]:
    """Asks a good question and fails if it is not answered."""
    request = cloze.FillMaskRequest(texts=[GOOD_TEXT], top_k=1)

    def check(running: Host) -> None:
        reply = running.cloze.FillMask(request, timeout=20)
        assert len(reply.results) == 1
        assert 0 < reply.results[0].masks[0].predictions[0].probability <= 1

    return check


@pytest.fixture
def other_client(host: Host) -> Iterator[grpc.Channel]:
    """A second connection to the server."""
    with host.connect() as channel:
        yield channel
