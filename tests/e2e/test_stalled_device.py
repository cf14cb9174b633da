"""A server process one of whose models never comes back from a batch: callers, health, metrics, log, and the end on SIGTERM."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import model_pb2 as model
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from tests.support.endless import write_endless
from tests.support.observed import metric
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = pytest.mark.slow

Status = health_pb2.HealthCheckResponse
CALL_SECONDS = granted(60.0)
FILL = cloze.FillMaskRequest(model="models/tiny", texts=["the [MASK] sat."])
HANG = cloze.FillMaskRequest(model="models/endless", texts=["the cat [MASK]."])
FINE = cloze.FillMaskRequest(model="models/endless", texts=["the dog [MASK]."])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Comes back from all that is asked here."""
    return write_endless(tmp_path_factory.mktemp("tiny"), "house")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never comes back from "cat"."""
    return write_endless(tmp_path_factory.mktemp("endless"), "cat")


def hosting(**models: Path) -> list[str]:
    """Flags of a server with these models, which PyTorch can't run."""
    return ["--runtime", "onnx", *(flag for name, source in models.items() for flag in ("--model", f"{name}={source}"))]


def failure(call: Any) -> tuple[grpc.StatusCode, str]:
    """The status of a call and the reason it names."""
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    error: Any = caught.value
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(error)
    assert status is not None and status.details[0].Unpack(info), error
    return error.code(), info.reason


def test_a_model_that_never_ends_is_told_of_and_does_not_keep_the_process(
    launch: Callable[..., Process], tiny: Path, endless: Path
) -> None:
    process = launch(*hosting(tiny=tiny, endless=endless), "--stall-seconds", "2", "--grace-seconds", "5")
    process.wait_until_serving()
    assert process.cloze.FillMask(FINE, timeout=CALL_SECONDS).results
    stub: Any = health_pb2_grpc.HealthStub(process.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
    assert next(watch).status == Status.SERVING
    hung = process.cloze.FillMask.future(HANG, timeout=CALL_SECONDS)
    others = [process.cloze.FillMask.future(FILL, timeout=CALL_SECONDS) for _ in range(3)]
    assert next(watch).status == Status.NOT_SERVING
    assert failure(hung) == (grpc.StatusCode.UNAVAILABLE, "DEVICE_STALLED")
    for call in others:  # each came before the batch that hangs, or waited behind it
        assert call.exception() is None or failure(call) == (grpc.StatusCode.UNAVAILABLE, "DEVICE_STALLED")
    assert process.health() == Status.NOT_SERVING
    assert metric(process, "bertscope_device_stalled", device="cpu") == 1
    assert metric(process, "bertscope_device_broken", device="cpu") == 0
    later = process.cloze.FillMask.future(FILL, timeout=CALL_SECONDS)
    assert failure(later) == (grpc.StatusCode.UNAVAILABLE, "DEVICE_STALLED")
    assert "cpu is stalled: a batch (1 text, " in process.text
    process.popen.send_signal(signal.SIGTERM)
    assert process.end(CALL_SECONDS) == 0
    assert "Traceback" not in process.text


def test_a_model_whose_first_run_never_ends_fails_its_load_and_a_server_that_begins_with_it(
    launch: Callable[..., Process], tiny: Path, tmp_path: Path
) -> None:
    """The words of the first runs make it loop."""
    endless = write_endless(tmp_path / "endless", "a")
    process = launch(*hosting(tiny=tiny), "--stall-seconds", "2", "--grace-seconds", "2")
    alone = launch(*hosting(endless=endless), "--stall-seconds", "2")
    process.wait_until_serving()
    request = model.LoadModelRequest(model_id="endless", source=str(endless))
    stream = process.models.LoadModel(request, timeout=CALL_SECONDS)
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    error: Any = caught.value
    assert (error.code(), "is stalled" in error.details()) == (grpc.StatusCode.UNAVAILABLE, True)
    wait_until(lambda: process.health() == Status.NOT_SERVING, "health says so")
    process.popen.send_signal(signal.SIGTERM)
    assert process.end(CALL_SECONDS) == 0
    assert alone.end() == 1
    assert "bertscope serve: cpu is stalled" in alone.text
    assert "Traceback" not in process.text + alone.text
