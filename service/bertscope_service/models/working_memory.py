"""Measures the memory of some work, on the thread that does it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

from bertscope_service.encoders.onnx.sessions import shrinking
from bertscope_service.errors import Unsupported
from bertscope_service.models.memory import give_back

SAMPLE_SECONDS = 0.001


def working_bytes(device: torch.device, work: Callable[[], object]) -> int:
    """Returns the maximum memory that some work takes on a device beyond what was in use before. Does the work twice.

    The result is exact for PyTorch on a GPU; ONNX Runtime allocates large pieces there, which count whole. On a CPU it is the
    maximum growth of the process's resident memory, so that nothing else should run in it meanwhile. Raises Unsupported on
    mps.
    """
    if device.type == "mps":
        message = "PyTorch does not say how much memory a run takes on mps; load the models with device cpu to compare them"
        raise Unsupported(message, "DEVICE_UNSUPPORTED", device=device)
    with shrinking():
        work()  # ONNX Runtime returns the memory of earlier runs
        if device.type == "cpu":
            give_back()  # the kernel counts free memory when it is used again
            return _with_kernel(work) if _reset_peak() else _with_samples(work)
    return _on_gpu(device, work)


def _on_gpu(device: torch.device, work: Callable[[], object]) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before, others = torch.cuda.memory_allocated(device), _used_by_others(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before + max(0, _used_by_others(device) - others)


def _used_by_others(device: torch.device) -> int:
    """Returns the memory of a GPU that PyTorch did not allocate."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free - torch.cuda.memory_reserved(device)


def _reset_peak() -> bool:
    """Resets the kernel's peak of this process's resident memory. Returns whether the kernel supports that and reports the
    next one."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return _status("VmHWM") > 0


def _with_kernel(work: Callable[[], object]) -> int:
    before = _status("VmRSS")
    work()
    return max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    """Returns an entry of /proc/self/status, bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _with_samples(work: Callable[[], object]) -> int:
    process, done = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_SECONDS):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, name="bertscope-memory")
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak - before
