"""The number formats that models compute in: the usual one of a device, and those that it has."""

from __future__ import annotations

import torch

from bertscope_service.checkpoints.sources import Kind, Source, read_config
from bertscope_service.checkpoints.steps import Applied
from bertscope_service.compression.half import chosen_precision
from bertscope_service.encoders.torch.quantization import QUANTIZATION_KEY, QUANTIZED
from bertscope_service.errors import Unsupported

TENSOR_CORES = (8, 0)
"""The first compute capability of NVIDIA's GPUs whose tensor cores multiply bf16 and TF32."""


def usual_precision(device: torch.device) -> str:
    """Returns the number format of "auto": bf16 on an NVIDIA GPU that is made for it, else fp32.

    Tensor cores of older ones have fp16 alone, whose range the states of some models leave.
    """
    return "bf16" if device.type == "cuda" and torch.cuda.get_device_capability(device) >= TENSOR_CORES else "fp32"


def choose_precision(asked: str, runtime: str, source: Source, steps: tuple[Applied, ...], device: torch.device) -> str:
    """Returns the number format that a source is run in.

    For "auto" it is the source's own, if it is stored in 16 bits or fewer or holds graphs, fp32 if graphs are requested, and
    else the device's usual one.
    """
    if asked != "auto":
        return asked
    stored, usual = chosen_precision(steps), usual_precision(device)
    if usual == stored or stored != "fp32" or runtime == "onnx" or source.kind is not Kind.CHECKPOINT:
        return stored
    return stored if QUANTIZATION_KEY in read_config(source.folder) else usual


def set_float32_products(*, tf32: bool) -> None:
    """Sets whether PyTorch rounds the factors of float32 products to TF32 on NVIDIA GPUs.

    A process has one such setting, so that it is set once, when the process starts.
    """
    # PyTorch has an older and a newer form of this setting, and raises where it finds them different; this one sets both.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32  # LSTMs and convolutions, which it rounds unless told otherwise


def check_precision(precision: str, device: torch.device, runtime: str) -> None:
    """Checks that a device has a number format in a library, "torch" or "onnx". Raises Unsupported, which names others."""
    if precision == "tf32":
        _check_tf32(device)
    if runtime == "onnx" or device.type != "cuda":
        return
    rounded = torch.backends.cuda.matmul.allow_tf32
    if precision == "tf32" and not rounded:
        message = (
            "PyTorch multiplies float32 in one way in a whole process, in this server not in tf32; "
            "start it with --precision tf32, or use bf16, fp16, fp32 or runtime onnx"
        )
    elif precision in ("fp32", *QUANTIZED) and rounded:
        message = (
            f"PyTorch multiplies float32 in one way in a whole process, in this server in tf32 on {device}; "
            "start it with another --precision, or use tf32, bf16, fp16, device cpu or runtime onnx"
        )
    else:
        return
    raise Unsupported(message, "PRECISION_UNSUPPORTED", precision=precision, device=device)


def _check_tf32(device: torch.device) -> None:
    if device.type != "cuda":
        message = f"{device} has no tf32, which is a format of NVIDIA's GPUs; use fp32, bf16 or fp16"
    elif (capability := torch.cuda.get_device_capability(device)) < TENSOR_CORES:
        major, minor = capability
        message = f"{device} has no tf32: its compute capability is {major}.{minor}, and tf32 begins with 8.0; use fp32 or fp16"
    else:
        return
    raise Unsupported(message, "PRECISION_UNSUPPORTED", precision="tf32", device=device)
