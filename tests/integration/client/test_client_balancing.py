"""Several servers behind one target: who is asked, and what happens when one goes."""

from collections.abc import Iterator

import bertscope
import pytest

from tests.support.fake_server import FakeServer, start

ROUND_ROBIN = [("grpc.lb_policy_name", "round_robin")]
CALLS = 8


@pytest.fixture
def two() -> Iterator[tuple[FakeServer, FakeServer]]:
    fakes = (FakeServer(), FakeServer())
    hosts = [start(fake) for fake in fakes]
    yield fakes
    for host in hosts:
        host.stop(grace=None).wait()


def target(servers: tuple[FakeServer, ...]) -> str:
    return "ipv4:" + ",".join(server.target for server in servers)


def ask(client: bertscope.Client, times: int) -> None:
    for _ in range(times):
        assert client.fill_mask("The [MASK] sat.")


def wait_until_both_are_reached(client: bertscope.Client, servers: tuple[FakeServer, ...]) -> None:
    """A channel begins with the first connection that it has, and shares once it has the others."""
    for _ in range(1000):
        if all(server.requests for server in servers):
            return
        ask(client, 1)
    raise AssertionError("one server was never asked")


def test_a_client_that_balances_asks_all_in_turn(two: tuple[FakeServer, FakeServer]) -> None:
    with bertscope.Client(target(two), options=ROUND_ROBIN) as client:
        wait_until_both_are_reached(client, two)
        before = [len(server.requests) for server in two]
        ask(client, CALLS)
    assert [len(server.requests) - earlier for server, earlier in zip(two, before, strict=True)] == [CALLS // 2, CALLS // 2]


def test_a_client_that_does_not_stays_with_one(two: tuple[FakeServer, FakeServer]) -> None:
    with bertscope.Client(target(two)) as client:
        ask(client, CALLS)
    assert sorted(len(server.requests) for server in two) == [0, CALLS]
