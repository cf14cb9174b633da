"""Fixtures: the page over a real server, and a client whose answers the page's are compared with."""

from collections.abc import Iterator

import bertscope
import pytest

from tests.support.harness import Host
from tests.support.page import Page


@pytest.fixture(scope="session")
def page(host: Host) -> Iterator[Page]:
    with Page(host.target) as running:
        yield running


@pytest.fixture(scope="session")
def client(host: Host) -> Iterator[bertscope.Client]:
    with bertscope.Client(host.target) as running:
        yield running
