"""Says at once, without PyTorch, that a machine has no GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bertscope_service.errors import FailedPrecondition

FILES = tuple(map(Path, ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))
"""Files of a driver on Linux: for NVIDIA's GPUs, in Windows' subsystem, and for AMD's."""


def check_gpu(device: str, files: Sequence[Path] = FILES) -> None:
    """Raises FailedPrecondition for a device of CUDA, "cuda" or "cuda:N", on a machine of Linux without a driver for one.

    Whether PyTorch can use a GPU that is there is found out when it is imported.
    """
    if device.startswith("cuda") and sys.platform.startswith("linux") and not any(file.exists() for file in files):
        message = f"--device {device}: this machine has no driver of a GPU; use cpu or auto"
        raise FailedPrecondition(message, "DEVICE_NOT_FOUND", device=device)
