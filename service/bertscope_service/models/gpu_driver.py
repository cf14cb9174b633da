"""Says why PyTorch can't use a GPU that the machine seems to have."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

DRIVER = Path("/proc/driver/nvidia/version")
"""The file of NVIDIA's driver for Linux; a container with a GPU has it, too."""


def why_no_gpu(driver: Path = DRIVER) -> str:
    """Returns why there is no CUDA device: PyTorch's own words if the machine has a driver, as for one that is too old; ""
    where there is nothing to wonder about, and where there is a device."""
    if not sys.platform.startswith("linux") or not driver.exists() or torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} was built without CUDA; install its build for CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return " ".join(str(error).split())
    return "PyTorch finds no device; is one passed to this container, and named in CUDA_VISIBLE_DEVICES?"
