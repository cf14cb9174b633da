"""Fixtures: server processes as a user starts them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.disturbance import ALONE
from tests.support.process import Process
from tests.support.proxy import Proxy
from tests.support.tiny import write_checkpoint


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with the embedded model, for all tests that leave it as they found it; its connections are seen by an example
    of the docs."""
    with Process(tmp_path_factory.mktemp("embedded"), "--channelz") as process:
        process.wait_until_serving()
        yield process


@pytest.fixture(scope="session")
def target(embedded: Process) -> str:
    """Where the server with the embedded model listens, HOST:PORT."""
    return embedded.target


@pytest.fixture(scope="session")
def gateway(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where an Envoy before that server listens, HOST:PORT."""
    with Proxy(tmp_path_factory.mktemp("envoy"), [target]) as proxy:
        yield proxy.target


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint."""
    return write_checkpoint("bert", tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="session")
def steady(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server of it that stays while others go, and answers as they do, bit for bit."""
    with Process(tmp_path_factory.mktemp("steady"), "--model", f"tiny={tiny}", *ALONE) as process:
        process.wait_until_serving()
        yield process


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts servers of a test's own; what is left of them is killed."""
    with ExitStack() as stack:

        def start(*flags: str, **environment: Any) -> Process:
            return stack.enter_context(Process(tmp_path, *flags, **environment))

        yield start
