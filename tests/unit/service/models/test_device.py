"""Devices by their names. Apple's GPU is made up: PyTorch says that it is there, and nothing runs on it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.sources import Kind
from bertscope_service.errors import FailedPrecondition, InvalidArgument, Unsupported
from bertscope_service.models.loading import choose_device
from bertscope_service.models.runtime_choice import only
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_candidates, read_encoders
from bertscope_service.models.working_memory import working_bytes
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
