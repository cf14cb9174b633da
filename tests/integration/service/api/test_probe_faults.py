"""What goes wrong in TrainProbe ends that call within a step, with a reason, and leaves no memory, file or room behind."""

import errno
import gc
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope_service.probing import lbfgs
from bertscope_service.probing.kinds import Size
from bertscope_service.probing.run import ProbeTraining

from tests.support.harness import Held, Host, refused
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
