"""The number formats of devices, with GPUs that are made up."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.sources import Kind
from bertscope_service.checkpoints.steps import Applied
from bertscope_service.encoders.torch.quantization import QUANTIZATION_KEY
from bertscope_service.errors import Unsupported
from bertscope_service.models.precisions import check_precision, choose_precision, set_float32_products, usual_precision

CPU, MPS, AMPERE, TURING = (torch.device(name) for name in ("cpu", "mps", "cuda:0", "cuda:1"))
HALVED = Applied("half", "weights in float16", {"bits": 16, "exponent_bits": 5})


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two GPUs, of which one is too old for bf16 and TF32, in a process that multiplies float32 as it is."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0) if device == AMPERE else (7, 5))
    set_float32_products(tf32=False)
    yield
    set_float32_products(tf32=False)


def source(folder: Path, kind: Kind = Kind.CHECKPOINT, **config: Any) -> Any:
    (folder / "config.json").write_text(json.dumps(config))
    return SimpleNamespace(kind=kind, folder=folder)


@pytest.mark.parametrize(("device", "precision"), [(CPU, "fp32"), (MPS, "fp32"), (TURING, "fp32"), (AMPERE, "bf16")])
def test_auto_is_the_usual_format_of_the_device(device: torch.device, precision: str, tmp_path: Path) -> None:
    assert usual_precision(device) == precision
    for runtime in ("torch", "auto"):
        assert choose_precision("auto", runtime, source(tmp_path), (), device) == precision
    assert choose_precision("fp16", "torch", source(tmp_path), (), device) == "fp16"


@pytest.mark.parametrize("device", [CPU, AMPERE])
def test_auto_is_the_format_of_what_is_stored(device: torch.device, tmp_path: Path) -> None:
    assert choose_precision("auto", "auto", source(tmp_path), (HALVED,), device) == "fp16"
    assert choose_precision("auto", "auto", source(tmp_path, **{QUANTIZATION_KEY: {}}), (), device) == "fp32"
    for kind in (kind for kind in Kind if kind is not Kind.CHECKPOINT):
        assert choose_precision("auto", "auto", source(tmp_path, kind), (), device) == "fp32"
    assert choose_precision("auto", "onnx", source(tmp_path), (), device) == "fp32"


def test_tf32_and_fp32_exclude_each_other_in_pytorch_on_a_gpu() -> None:
    check_precision("fp32", AMPERE, "torch")
    with pytest.raises(Unsupported, match=r"not in tf32; start it with --precision tf32, or use bf16") as refused:
        check_precision("tf32", AMPERE, "torch")
    assert refused.value.reason == "PRECISION_UNSUPPORTED"
    set_float32_products(tf32=True)
    check_precision("tf32", AMPERE, "torch")
    for stored in ("fp32", "weight_only", "int8"):
        with pytest.raises(Unsupported, match=r"in tf32 on cuda:0; .* or use tf32, bf16"):
            check_precision(stored, AMPERE, "torch")
    for half in ("bf16", "fp16"):
        check_precision(half, AMPERE, "torch")
    check_precision("fp32", CPU, "torch")


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
@pytest.mark.parametrize(
    ("device", "words"),
    [
        (CPU, r"cpu has no tf32, which is a format of NVIDIA's GPUs; use fp32, bf16 or fp16"),
        (MPS, r"mps has no tf32"),
        (TURING, r"cuda:1 has no tf32: its compute capability is 7\.5, and tf32 begins with 8\.0; use fp32 or fp16"),
    ],
)
def test_devices_without_tf32_say_what_they_have(device: torch.device, words: str, runtime: str) -> None:
    set_float32_products(tf32=True)
    with pytest.raises(Unsupported, match=words):
        check_precision("tf32", device, runtime)


@pytest.mark.parametrize("tf32", [False, True])
def test_all_products_of_float32_follow_the_setting(tf32: bool) -> None:
    set_float32_products(tf32=tf32)
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    assert [backend.fp32_precision == "tf32" for backend in backends] == [tf32] * 3
    assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")  # raises where the two forms differ
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"
