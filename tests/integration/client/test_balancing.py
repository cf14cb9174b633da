"""Several servers behind one target: who is asked, and what happens when one goes."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import bertscope
import pytest

from tests.support.fake_server import FakeServer, start
from tests.support.harness import Host, LoopThread
from tests.support.patience import wait_until

ROUND_ROBIN = [("grpc.lb_policy_name", "round_robin")]
CALLS = 8
TEXT = "Paris is the capital of [MASK]."


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


def answered(host: Host) -> float:
    return host.metric("bertscope_requests_total", method="FillMask", code="OK")


@pytest.mark.slow
def test_a_server_that_starts_is_called_once_it_serves_and_one_that_stops_no_more(
    launch: Callable[..., Host], loop: LoopThread
) -> None:
    serving, starting = launch(), launch(load=False)
    with bertscope.Client(f"{starting.target},{serving.target}", retries=0) as client:
        for _ in range(CALLS):
            client.fill_mask(TEXT)
        assert (answered(serving), answered(starting)) == (CALLS, 0)
        loop.run(starting.server.load_models())

        def both_are_called() -> bool:
            client.fill_mask(TEXT)
            return answered(starting) > 0

        wait_until(both_are_called, "the client has heard that the other one serves")
        loop.run(serving.server.stop(20))
        before = answered(starting)
        for _ in range(CALLS):
            client.fill_mask(TEXT)
        assert answered(starting) == before + CALLS


def test_a_client_of_servers_that_all_start_says_so(launch: Callable[..., Host]) -> None:
    starting = launch(load=False)
    both = f"{starting.target},{starting.target}"
    said = "those that are reached still load their models"
    with bertscope.Client(both, retries=0) as client, pytest.raises(bertscope.Unavailable, match=said):
        client.fill_mask(TEXT)


@pytest.mark.slow
def test_a_server_that_was_away_for_long_is_connected_to_again_soon() -> None:
    """gRPC's own pauses grow to two minutes: the tenth attempt would come after 110 s, and the wait here ends before."""
    with closing(socket.create_server(("127.0.0.1", 0))) as broken:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with bertscope.Client(f"127.0.0.1:{broken.getsockname()[1]}", options=options, retries=0, timeout=1) as client:
            broken.settimeout(5)  # a pause is a second at most, and 20 % more by chance
            for _ in range(10):
                with pytest.raises(bertscope.BertscopeError):
                    client.health()
                broken.accept()[0].close()
