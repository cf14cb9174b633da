"""Says at once, without PyTorch, that no device has this name, or that a machine has no GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bertscope_service.errors import FailedPrecondition, InvalidArgument

FILES = tuple(map(Path, ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))
"""Files of a driver on Linux: for NVIDIA's GPUs, in Windows' subsystem, and for AMD's."""


def cuda_index(device: str) -> int | None:
    """Returns the number of a device of CUDA, None for "auto", "cpu" and "mps". Raises InvalidArgument for anything else."""
    match = re.fullmatch(r"auto|cpu|mps|cuda(?::(\d{1,3}))?", device)
    if match is None:
        raise InvalidArgument("device", f"device {device!r} is unknown; write auto, cpu, cuda:N or mps", "UNKNOWN_DEVICE")
    return int(match[1] or 0) if device.startswith("cuda") else None


def check_gpu(device: str, files: Sequence[Path] = FILES) -> None:
    """Raises FailedPrecondition for a device of CUDA on a machine of Linux without a driver for one, else as `cuda_index`.

    Whether PyTorch can use a GPU that is there is found out when it is imported.
    """
    if cuda_index(device) is not None and sys.platform.startswith("linux") and not any(file.exists() for file in files):
        message = f"--device {device}: this machine has no driver of a GPU; use cpu or auto"
        raise FailedPrecondition(message, "DEVICE_NOT_FOUND", device=device)
