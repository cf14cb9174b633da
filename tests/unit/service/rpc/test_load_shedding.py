"""Who is turned away before a request is read, how clients are told apart, and what a server says about refusals."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from bertscope_service.contract import Work
from bertscope_service.errors import Overloaded
from bertscope_service.observability.metrics import Metrics
from bertscope_service.rpc.connections import NEVER_MS, server_options
from bertscope_service.rpc.load_shedding import CallLimits, LoadShedder, RefusalLog
from bertscope_service.security import callers
from bertscope_service.settings import Settings

FULL = Overloaded("full", "QUEUE_FULL", 1.5)
LATE = Overloaded("late", "DEADLINE_UNREACHABLE", 1.5)


def shedder(
    *, calls: int = 0, client_calls: int = 0, overloaded: tuple[str, ...] = (), metrics: Metrics | None = None
) -> LoadShedder:
    limits = CallLimits(calls, client_calls)
    return LoadShedder(limits, metrics or Metrics(), lambda client, _: FULL if client in overloaded else None)


def refusal(shedder: LoadShedder, client: str, work: Work = Work.INTERACTIVE) -> str | None:
    """Why a call is turned away, None if it is not; it ends at once."""
    try:
        with shedder.admit(work, client, None):
            return None
    except Overloaded as error:
        assert 0 < error.retry_after <= 30
        return error.reason


def test_a_client_has_so_many_calls_at_a_time_and_others_have_theirs() -> None:
    metrics = Metrics()
    limited = shedder(client_calls=2, metrics=metrics)
    with limited.admit(Work.INTERACTIVE, "a", None):
        for _ in range(2):
            with limited.admit(Work.BULK, "a", None):
                assert [refusal(limited, client) for client in "ab"] == ["CLIENT_LIMIT", None]
    assert refusal(limited, "a") is None
    assert metrics.registry.get_sample_value("bertscope_rejected_total", {"reason": "client_limit"}) == 2


def test_a_server_has_so_many_calls_at_a_time() -> None:
    """Who comes too early gets the time in which one of the running calls ends, as long as calls take."""
    limited = shedder(calls=3)
    for _ in range(100):
        limited.admit(Work.BULK, "a", None)
        limited.end("a", 6.0)
    with ExitStack() as inside:
        for client in "abc":
            inside.enter_context(limited.admit(Work.INTERACTIVE, client, None))
        with pytest.raises(Overloaded) as caught:
            limited.admit(Work.INTERACTIVE, "d", None)
        assert (caught.value.reason, caught.value.retry_after) == ("SERVER_LIMIT", pytest.approx(2.0, rel=0.01))
        assert limited.refusing
    assert refusal(limited, "d") is None
    assert not limited.refusing


def test_a_call_that_fails_is_inside_no_longer() -> None:
    limited = shedder(calls=1, client_calls=1)
    with pytest.raises(ValueError, match="broken"), limited.admit(Work.INTERACTIVE, "a", None):
        raise ValueError("broken")
    assert refusal(limited, "a") is None


def test_who_watches_a_server_is_always_answered() -> None:
    limited = shedder(calls=1, client_calls=1, overloaded=("a",))
    with limited.admit(Work.INTERACTIVE, "b", None):
        assert refusal(limited, "a", Work.PROBE) is None


def test_the_queue_turns_away_only_methods_whose_rows_would_wait_in_it() -> None:
    limited = shedder(overloaded=("a",))
    assert {work for work in Work if refusal(limited, "a", work)} == {Work.INTERACTIVE}
    assert refusal(limited, "a") == "QUEUE_FULL"
    assert refusal(limited, "b") is None


@pytest.mark.asyncio
async def test_refusals_share_a_line_a_second(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are counted, the last ones of a burst too."""
    timers: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda seconds, say: timers.append((seconds, say)))
    log = RefusalLog()
    with caplog.at_level(logging.WARNING):
        for bursts in ([FULL] * 3000 + [LATE], [FULL]):
            for refusal in bursts:
                log.note(refusal)
            ((seconds, say),) = timers
            assert seconds == 1
            say()
            timers.clear()
    assert [record.getMessage() for record in caplog.records] == [
        "calls refused within 1 s: QUEUE_FULL 3000, DEADLINE_UNREACHABLE 1",
        "calls refused within 1 s: QUEUE_FULL 1",
    ]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:5000", "ipv4:10.0.0.1"),
        ("ipv6:[::1]:5000", "ipv6:::/64"),
        ("ipv6:%5B::1%5D:5000", "ipv6:::/64"),
        ("ipv6:%5B2001:db8:0:1:2:3:4:5%5D:5000", "ipv6:2001:db8:0:1::/64"),
        ("ipv6:[fe80::1%25eth0]:5000", "ipv6:fe80::/64"),
        ("ipv6:[::ffff:10.0.0.1]:5000", "ipv4:10.0.0.1"),
        ("unix:/run/socket", "unix:/run/socket"),
        ("name:alice", "name:alice"),
    ],
)
def test_without_a_token_the_connection_or_its_address(peer: str, address: str) -> None:
    assert (callers.identify(peer, "connection"), callers.identify(peer, "address")) == (peer, address)


def test_seconds_become_milliseconds_and_nothing_means_never() -> None:
    options = dict(server_options(Settings(keepalive_seconds=1.5, max_connection_age_seconds=0, min_ping_seconds=0)))
    assert dict(server_options(Settings(keepalive_seconds=0.0001)))["grpc.keepalive_time_ms"] == 1
    assert options["grpc.keepalive_time_ms"] == 1500
    assert options["grpc.max_connection_age_ms"] == NEVER_MS
    assert options["grpc.http2.min_ping_interval_without_data_ms"] == 0
    largest = dict(server_options(Settings(max_connection_idle_seconds=2_000_000)))
    assert largest["grpc.max_connection_idle_ms"] < NEVER_MS
