"""Devices: which one is chosen, what its driver and its memory say, how full a server is, and that freed memory goes back."""

import asyncio
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bertscope_service import __main__ as server
from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import PARSED_BYTES, REQUESTS_BYTES, RequestMemory
from bertscope_service.checkpoints.sources import Kind
from bertscope_service.errors import FailedPrecondition, InvalidArgument, Overloaded, Unsupported
from bertscope_service.models import freed_memory, loading
from bertscope_service.models.freed_memory import FREED_BYTES, LARGE_BYTES, FreedMemory
from bertscope_service.models.gpu_driver import why_no_gpu
from bertscope_service.models.gpu_files import check_gpu
from bertscope_service.models.loading import choose_device
from bertscope_service.models.memory import forget_locals
from bertscope_service.models.runtime_choice import only
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_candidates, read_encoders
from bertscope_service.models.saturation import most_free
from bertscope_service.models.working_memory import working_bytes
from bertscope_service.observability.metrics import Metrics
from bertscope_service.rpc.status import without_float64

MPS = torch.device("mps")


@pytest.fixture
def apple(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("apple")
def test_mps_is_taken_when_it_is_named_and_only_then() -> None:
    assert choose_device("mps") == MPS
    assert choose_device("auto") == torch.device("cpu")


def test_where_there_is_no_apple_gpu_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(FailedPrecondition, match=r"mps does not exist: .* use cpu or auto") as refused:
        choose_device("mps")
    assert refused.value.reason == "DEVICE_NOT_FOUND"


@pytest.mark.parametrize("name", ["mps:0", "metal", "gpu", ""])
def test_an_unknown_name_is_told_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidArgument, match="write auto, cpu, cuda:N or mps"):
        choose_device(name)


def source(kind: Kind) -> Any:
    """A folder that nobody reads: the device decides before."""
    return SimpleNamespace(kind=kind, folder=Path("/models/one"), architecture="bert")


def settings(folder: Path) -> RuntimeSettings:
    return RuntimeSettings(folder, 1, "all", None)


def test_onnx_runtime_is_refused_there_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"can't be run by onnx: ONNX Runtime runs on cpu and cuda here, not on mps"):
        read_encoders(source(Kind.CHECKPOINT), "", RuntimeRequest("onnx", "fp32", MPS), settings(tmp_path))
    with pytest.raises(Unsupported, match=r"holds ONNX graphs, which run on cpu and cuda here, not on mps; use device cpu"):
        read_encoders(source(Kind.EXPORT), "", RuntimeRequest("auto", "fp32", MPS), settings(tmp_path))


def test_a_checkpoint_is_run_by_pytorch_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertscope_service.models.runtimes._read_torch", lambda *_: SimpleNamespace(runtime="torch"))
    found = read_candidates(source(Kind.CHECKPOINT), "", RuntimeRequest("auto", "fp32", MPS), settings(tmp_path))
    assert found.choice == only("torch", MPS, "ONNX Runtime runs on cpu and cuda here, not on mps")


def test_what_it_can_not_do_is_refused_and_not_an_internal_error() -> None:
    with pytest.raises(Unsupported, match="how much memory a run takes on mps"):
        working_bytes(MPS, lambda: None)
    said = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32."
    told = without_float64(TypeError(said))
    assert isinstance(told, Unsupported)
    assert told.reason == "DEVICE_UNSUPPORTED"
    other = TypeError("something else")
    assert without_float64(other) is other


TOO_OLD = "The NVIDIA driver on your system is too old (found version 11040)."


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a driver, on a machine whose PyTorch finds no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    file = tmp_path / "version"
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02")
    return file


def test_a_machine_without_a_driver_is_told_before_the_server_listens(
    driver: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for device, files in (("cuda:0", [driver]), ("auto", []), ("cpu", [])):
        check_gpu(device, files)
    with pytest.raises(FailedPrecondition, match="--device cuda: this machine has no driver of a GPU; use cpu or auto"):
        check_gpu("cuda", [driver.with_name("none")])
    monkeypatch.setattr(server, "check_gpu", lambda device: check_gpu(device, []))
    assert server.main(["--device", "cuda:1", "--port", "0"]) == 1
    assert capsys.readouterr().err.startswith("bertscope serve: --device cuda:1: this machine has no driver of a GPU")
    assert server.main(["--device", "gpu", "--port", "0"]) == 1
    assert capsys.readouterr().err == "bertscope serve: device 'gpu' is unknown; write auto, cpu, cuda:N or mps\n"
    monkeypatch.setattr(sys, "platform", "darwin")
    check_gpu("cuda", [])


def test_a_driver_that_is_too_old(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError(f"{TOO_OLD}\nPlease update it.")

    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setattr(torch.cuda, "init", init)
    assert why_no_gpu(driver) == f"{TOO_OLD} Please update it."


def test_a_pytorch_without_cuda(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert why_no_gpu(driver) == f"PyTorch {torch.__version__} was built without CUDA; install its build for CUDA"


def test_a_container_that_was_given_no_device(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    assert "CUDA_VISIBLE_DEVICES" in why_no_gpu(driver)


def test_the_cpu_in_place_of_a_gpu_is_a_warning(
    driver: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "why_no_gpu", lambda: TOO_OLD)
    with caplog.at_level(logging.WARNING):
        assert choose_device("auto") == torch.device("cpu")
    assert caplog.messages == [f"this machine has an NVIDIA driver, but models run on its CPU: {TOO_OLD}"]
    with pytest.raises(FailedPrecondition, match=r"cuda:0 does not exist: The NVIDIA driver .* is too old"):
        choose_device("cuda:0")


def test_errors_in_a_circle() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    forget_locals(one)


@pytest.mark.asyncio
async def test_what_calls_held_is_returned_after_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "WAIT_SECONDS", 0.0)
    loop, given = asyncio.get_running_loop(), asyncio.Queue[None]()
    freed = FreedMemory(lambda: asyncio.run_coroutine_threadsafe(given.put(None), loop).result())
    replies, requests = ReplyMemory(Metrics(), freed), RequestMemory(Metrics(), freed)

    async def call(size: int) -> None:
        replies.hold("one", size)

    async def refused() -> None:
        with pytest.raises(Overloaded):
            requests.receive("one", REQUESTS_BYTES // PARSED_BYTES)

    for _ in range(2 * FREED_BYTES // LARGE_BYTES):
        await asyncio.create_task(call(LARGE_BYTES - 1))
    await asyncio.create_task(call(FREED_BYTES - 1))
    await asyncio.sleep(0)
    assert not freed.waiting
    await asyncio.gather(*(asyncio.create_task(call(LARGE_BYTES)) for _ in range(10)))
    await given.get()
    assert given.empty()  # once for all of them

    requests.receive("other", LARGE_BYTES)
    await asyncio.create_task(refused())
    await given.get()  # what a refused request took is freed, too


@pytest.mark.parametrize(
    ("launches", "text", "most", "expected"),
    [(1.0, 0.01, 1000, 16), (1.0, 0.0001, 1000, 512), (0.0, 0.01, 1000, 1), (1.0, 0.01, 7, 4), (1.0, 0.01, 0, 1)],
)
def test_most_free(launches: float, text: float, most: int, expected: int) -> None:
    """A batch takes the time of its launches and that of its texts, one of which hides behind the other."""
    timed = []

    async def seconds(copies: int) -> float:
        timed.append(copies)
        return max(launches, 0.0) + text * copies

    assert asyncio.run(most_free(seconds, most)) == expected
    assert max(timed) <= max(1, most), "a batch was larger than the device takes"
