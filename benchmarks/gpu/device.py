"""Measures time on a device, and the device's limits."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.gpu.report import Row

ROUNDS = 7
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits measured in the same run: floating-point operations a second of matrix products in bf16, TF32 and fp32, bytes a
    second to the host, and bytes a second read and written in the device's memory."""

    flops: float
    copy_bytes: float
    tf32_flops: float = 0.0
    fp32_flops: float = 0.0
    memory_bytes: float = 0.0

    def rows(self) -> Iterator[Row]:
        for name, rate in (("bf16", self.flops), ("tf32", self.tf32_flops), ("fp32", self.fp32_flops)):
            yield f"{name} matrix product", tera(rate), "", f"{rate / self.flops:.0%}"
        yield "memory of the device, read and written", f"{self.memory_bytes / 1e9:,.1f} GB/s", "", ""
        yield "copy to the host, pinned", f"{self.copy_bytes / 1e9:.1f} GB/s", "", ""


def measure_limits(device: torch.device, *, tiny: bool = False) -> Limits:
    """Times large matrix products, a copy of 256 MiB in the device's memory, and one into pinned memory of the host; small ones
    as a trial."""
    size, mib = (256, 1) if tiny else (8192, 256)
    pinned = device.type == "cuda"
    source = torch.empty(mib * 1024 * 1024, dtype=torch.uint8, device=device)
    near, far = torch.empty_like(source), torch.empty(source.shape, dtype=torch.uint8, device="cpu", pin_memory=pinned)
    flops = {}
    for name in ("bf16", "tf32", "fp32"):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        left = torch.randn(size, size, device=device, dtype=torch.bfloat16 if name == "bf16" else torch.float32)
        flops[name] = 2 * size**3 / seconds(device, partial(torch.matmul, left, left))
    torch.backends.cuda.matmul.allow_tf32 = False
    return Limits(
        flops["bf16"],
        source.nbytes / seconds(device, lambda: far.copy_(source, non_blocking=True)),
        flops["tf32"],
        flops["fp32"],
        2 * source.nbytes / seconds(device, lambda: near.copy_(source)),
    )


def tera(flops: float) -> str:
    """Returns operations per second in words."""
    return f"{flops / 1e12:.3g} TFLOP/s" if flops < 1e14 else f"{flops / 1e12:.0f} TFLOP/s"


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
    """Returns the device by its name, with its compute capability and memory, and what the driver's tool reports."""
    if device.type != "cuda":
        return "CPU"
    found = torch.cuda.get_device_properties(device)
    name = f"{found.name}, capability {found.major}.{found.minor}, {found.total_memory / 2**30:.0f} GiB"
    query = {"driver_version": "driver", "clocks.sm": "clock now", "clocks.max.sm": "at most", "power.draw": "power"}
    if shutil.which("nvidia-smi") is None:
        return name
    command = ["nvidia-smi", f"--query-gpu={','.join(query)}", "--format=csv,noheader", "-i", str(device.index or 0)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if told.returncode:
        return name
    values = zip(query.values(), told.stdout.strip().split(","), strict=False)
    return ", ".join([name, *(f"{what} {value.strip()}" for what, value in values)])
