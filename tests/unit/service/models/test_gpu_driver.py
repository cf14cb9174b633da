"""Why PyTorch can't use a GPU, said where the machine seems to have one."""

import logging
import sys
from pathlib import Path

import pytest
import torch
from bertscope_service import __main__ as server
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import loading
from bertscope_service.models.gpu_driver import why_no_gpu
from bertscope_service.models.gpu_files import check_gpu
from bertscope_service.models.loading import choose_device

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
