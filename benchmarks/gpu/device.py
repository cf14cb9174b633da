"""Measures time on a device, and the device's limits."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

Row = tuple[str, str, str, str]
"""A row of the table: what, ours, the other side or the device's limit, ratio."""

ROUNDS = 7
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits measured in the same run: floating-point operations a second of a bf16 matrix product, bytes a second to the
    host."""

    flops: float
    copy_bytes: float

    def rows(self) -> list[Row]:
        return [
            ("bf16 matrix product", f"{self.flops / 1e12:.1f} TFLOP/s", "", "the limit below"),
            ("copy to the host, pinned", f"{self.copy_bytes / 1e9:.1f} GB/s", "", "the limit below"),
        ]


def measure_limits(device: torch.device) -> Limits:
    """Times a large bf16 matrix product, and a copy of 256 MiB into pinned memory; small ones on a CPU, as a trial."""
    large = device.type == "cuda"
    size = 8192 if large else 512
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    source = torch.empty((256 if large else 1) * 1024 * 1024, dtype=torch.uint8, device=device)
    target = torch.empty_like(source, device="cpu", pin_memory=large)
    flops = 2 * size**3 / seconds(device, lambda: left @ left)
    return Limits(flops, source.numel() / seconds(device, lambda: target.copy_(source, non_blocking=True)))


@torch.inference_mode()
def seconds(device: torch.device, work: Callable[[], object]) -> float:
    """Returns the median over ROUNDS after WARM_UPS, the device idle before and after each."""
    taken = []
    for _ in range(ROUNDS + WARM_UPS):
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[WARM_UPS:])


def synchronize(device: torch.device) -> None:
    """Waits until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def describe(device: torch.device) -> str:
    """Returns the device by its name, with its clocks if the driver's tool reports them."""
    if device.type != "cuda":
        return "CPU"
    name = torch.cuda.get_device_name(device)
    if shutil.which("nvidia-smi") is None:
        return name
    query = "--query-gpu=clocks.sm,clocks.max.sm,power.draw"
    command = ["nvidia-smi", query, "--format=csv,noheader", "-i", str(device.index or 0)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return f"{name} (clock now, at most, power: {told.stdout.strip()})" if told.returncode == 0 else name
