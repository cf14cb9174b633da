"""What goes wrong in TrainProbe ends that call within a step, with a reason, and leaves no memory, file or room behind. Its
large requests are read in their clients' turns, count against memory, and end with their callers and the server."""

import asyncio
import errno
import gc
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope_service import cancellation
from bertscope_service.api import representation_probes, request_memory
from bertscope_service.api.request_memory import PLAN_BYTES
from bertscope_service.probing import lbfgs
from bertscope_service.probing.kinds import Size
from bertscope_service.probing.run import ProbeTraining

from tests.support.harness import CALL_SECONDS, Held, Host, refused
from tests.support.patience import granted, wait_until
from tests.support.probes import request, train, training_bytes

SPANS, TRAINED, LAYERS = 360, 240, 5
"""Of the usual request of test_probes, by models/bert."""


def in_flight(host: Host) -> float:
    return host.metric("bertscope_requests_in_flight", method="TrainProbe")


@pytest.fixture
def small(launch: Callable[..., Host]) -> Host:
    """A server whose batches are a step each."""
    return launch(batch_tokens=64)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Every step of L-BFGS waits, on the device's thread, until it is let through."""
    gate, step = Held(), lbfgs.LbfgsProbes.step

    def waited(self: lbfgs.LbfgsProbes, *given: Any) -> None:
        gate.wait()
        step(self, *given)

    monkeypatch.setattr(lbfgs.LbfgsProbes, "step", waited)
    yield gate
    gate.let_through()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """What trainings keep: their states and their probes."""
    found: list[weakref.ref[Any]] = []
    prepare = ProbeTraining._prepare

    async def noted(self: ProbeTraining, *given: Any) -> None:
        await prepare(self, *given)
        found.extend((weakref.ref(self.states.values), *map(weakref.ref, self._trained)))

    monkeypatch.setattr(ProbeTraining, "_prepare", noted)
    return found


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("no_collection")
def test_a_call_that_is_cancelled_ends_within_a_step(small: Host, steps: Held, kept: list[weakref.ref[Any]]) -> None:
    call = small.representation.TrainProbe(request())
    wait_until(lambda: steps.arrived, "the first step runs")
    call.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.CANCELLED
    arrived = steps.arrived
    steps.let_through()
    wait_until(lambda: in_flight(small) == 0, "the call is over")
    assert steps.arrived == arrived <= 1
    train(small)  # the room is free
    assert kept
    wait_until(lambda: not any(one() is not None for one in kept), "no training is kept")


def test_a_full_disk_is_an_error_and_leaves_no_file(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    needed = training_bytes(Size(LAYERS, train(host).report.hidden_size, 2, 3), TRAINED)
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        for _ in range(2):
            with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
                train(host, memory_bytes=needed)
            assert failures[0].info.reason == "DISK_FULL"
            assert "send fewer texts" in failures[0].message
            assert str(tmp_path) not in failures[0].message
    assert train(host, memory_bytes=needed).report.on_disk
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_calls_take_the_room_that_the_server_has(launch: Callable[..., Host], host: Host, steps: Held) -> None:
    steps.let_through()
    hidden = train(host).report.hidden_size
    needed, room = training_bytes(Size(LAYERS, hidden, 2, 3), TRAINED), 4 * SPANS * LAYERS * hidden
    tight = launch(probe_memory_bytes=needed + room - 1, probe_disk_bytes=room)
    before = steps.arrived
    steps.hold()
    call = tight.representation.TrainProbe(request(), timeout=granted(60))
    wait_until(lambda: steps.arrived > before, "it trains")
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
        train(tight)
    assert failures[0].info.reason == "PROBE_MEMORY"
    assert failures[0].retry.retry_delay.ToTimedelta().total_seconds() > 0
    steps.let_through()
    (report,) = [one.report for one in call if one.HasField("report")]
    assert report.on_disk
    assert report.layers == train(tight).report.layers == train(host).report.layers
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        train(tight, test=[*request().test] * 2)
    assert (failures[0].fields, failures[0].info.reason) == (["train"], "STATES_TOO_LARGE")
    assert probes.ProbeProgress.STAGE_TRAINING in [one.stage for one in train(tight).progress]


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
