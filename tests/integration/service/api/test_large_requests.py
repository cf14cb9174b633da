"""Large requests: they are read in their clients' turns, count against memory, and end with their callers and the server."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2
from bertscope_service import cancellation
from bertscope_service.api import representation_probes, request_memory
from bertscope_service.api.request_memory import PLAN_BYTES

from tests.support.harness import CALL_SECONDS, Held, Host, refused
from tests.support.patience import wait_until
from tests.support.probes import request

ASKED = cloze_pb2.FillMaskRequest(texts=["The [MASK] sat."])


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Each TrainProbe waits in its thread while its first part is read, and looks whether it should end."""
    gate, parts = Held(), representation_probes._parts

    def waited(*given: Any) -> Any:
        gate.wait()
        cancellation.check()
        return parts(*given)

    monkeypatch.setattr(representation_probes, "_parts", waited)
    yield gate
    gate.let_through()


def in_flight(host: Host) -> float:
    return host.metric("bertscope_requests_in_flight", method="TrainProbe")


@pytest.mark.slow
def test_large_bulk_requests_that_are_read_leave_others_their_threads(launch: Callable[..., Host], reading: Held) -> None:
    """Any number of them: small calls, large interactive ones and other bulk calls are answered meanwhile."""
    host = launch()
    calls = [host.representation.TrainProbe(request(), timeout=CALL_SECONDS) for _ in range(8)]
    wait_until(lambda: reading.arrived >= 1, "one is read")
    many = cloze_pb2.FillMaskRequest(texts=["The [MASK] sat on the mat, and the dog ran in the park."] * 200)
    assert many.ByteSize() > 4000
    for asked in (ASKED, many):
        assert len(host.cloze.FillMask(asked, timeout=CALL_SECONDS).results) == len(asked.texts)
    reading.let_through()
    for call in calls:
        assert list(call)[-1].HasField("report")


@pytest.mark.slow
def test_a_request_whose_caller_has_gone_is_read_no_further(
    launch: Callable[..., Host], reading: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, read = launch(), list[int]()
    texts = representation_probes._text

    def counted(*given: Any, **more: Any) -> Any:
        read.append(1)
        return texts(*given, **more)

    monkeypatch.setattr(representation_probes, "_text", counted)
    call = host.representation.TrainProbe(request())
    wait_until(lambda: reading.arrived, "it is read")
    call.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.CANCELLED
    wait_until(lambda: in_flight(host) == 0, "the call is over")
    reading.let_through()
    (report,) = [
        one.report for one in host.representation.TrainProbe(request(), timeout=CALL_SECONDS) if one.HasField("report")
    ]
    assert len(read) == report.train.texts + report.dev.texts + report.test.texts


@pytest.mark.slow
def test_large_requests_take_room_until_they_are_answered(
    launch: Callable[..., Host], reading: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = PLAN_BYTES * request().ByteSize()
    monkeypatch.setattr(request_memory, "REQUESTS_BYTES", 2 * one + one // 2)
    host = launch()
    first = host.representation.TrainProbe(request(), timeout=CALL_SECONDS)
    wait_until(lambda: host.server._hosting.backend.request_memory.total == one, "the first is read")
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
        list(host.representation.TrainProbe(request(), timeout=CALL_SECONDS))
    assert failures[0].info.reason == "REQUESTS_FULL"
    assert failures[0].retry.retry_delay.ToTimedelta().total_seconds() > 0
    assert host.cloze.FillMask(ASKED, timeout=CALL_SECONDS).results
    reading.let_through()
    assert list(first)[-1].HasField("report")
    wait_until(lambda: host.server._hosting.backend.request_memory.total == 0, "its room is free")
    monkeypatch.setattr(request_memory, "REQUESTS_BYTES", 1)  # a single one always fits
    assert list(host.representation.TrainProbe(request(), timeout=CALL_SECONDS))[-1].HasField("report")


@pytest.mark.slow
def test_a_stop_does_not_wait_for_requests_that_are_read(launch: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for what else fills asyncio's own pool: their threads end by themselves later."""
    host, held = launch(), threading.Event()
    monkeypatch.setattr(representation_probes, "_parts", lambda *_: held.wait(CALL_SECONDS))
    calls = [host.representation.TrainProbe(request(), timeout=CALL_SECONDS) for _ in range(4)]
    wait_until(lambda: in_flight(host) == 4, "they are there")

    async def fill() -> None:
        for _ in range(64):
            asyncio.get_running_loop().run_in_executor(None, held.wait, CALL_SECONDS)

    try:
        host.loop.run(fill())
        host.loop.run(asyncio.wait_for(host.server.stop(0.0), CALL_SECONDS / 2))
        with ThreadPoolExecutor() as pool:
            for failed in pool.map(failure_of, calls):
                assert failed is grpc.StatusCode.UNAVAILABLE
    finally:
        held.set()


def failure_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    code: grpc.StatusCode = caught.value.code()
    return code
