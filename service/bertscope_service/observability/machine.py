"""Describes the machine that measures: its processors, its memory, and the load of other processes."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch

FLAGS = (
    *("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve"),
)
"""Instruction sets used by matrix products, by their names on Linux: of x86, then of ARM."""


@dataclass(frozen=True, slots=True)
class Machine:
    """See bertscope.v1.Machine."""

    cpu: str
    cores: int
    cpu_flags: tuple[str, ...]
    gpus: tuple[str, ...]
    threads: int
    memory_bytes: int
    system: str
    other_load: float


def describe(devices: Sequence[torch.device], threads: int, other_load: float) -> Machine:
    """Describes this machine; `devices` are the devices used, `threads` those of a batch, `other_load` a LoadMeter's share."""
    model, flags, cores = processor()
    gpus = tuple(torch.cuda.get_device_name(device) for device in devices if device.type == "cuda")
    return Machine(
        model,
        cores,
        flags,
        gpus,
        threads,
        psutil.virtual_memory().total,
        platform.platform(),
        other_load,
    )


def memory_limit() -> int:
    """Returns the memory that this process may take, bytes: the machine's, or its container's if that is less."""
    total = psutil.virtual_memory().total
    for file in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        with suppress(OSError, ValueError):  # no such file, or "max"
            return min(total, int(file.read_text()))
    return total


def processor() -> tuple[str, tuple[str, ...], int]:
    """Returns the processor's model, its flags among `FLAGS`, and the physical cores that this process may use."""
    model, flags = _read_processor()
    return model, tuple(flag for flag in FLAGS if flag in flags), _usable_cores()


def _read_processor() -> tuple[str, frozenset[str]]:
    """Returns the processor's model and flags, as far as the system names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine(), frozenset()
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    flags = values.get("flags") or values.get("Features", "")
    return values.get("model name") or platform.machine(), frozenset(flags.split())


def _usable_cores() -> int:
    """Returns the number of physical cores among the processors that this process may run on."""
    if not hasattr(os, "sched_getaffinity"):
        return psutil.cpu_count(logical=False) or 1
    usable = os.sched_getaffinity(0)
    siblings = Path("/sys/devices/system/cpu")
    try:
        return len({(siblings / f"cpu{cpu}/topology/thread_siblings_list").read_text() for cpu in usable})
    except OSError:
        return min(len(usable), psutil.cpu_count(logical=False) or 1)


@dataclass(slots=True)
class LoadMeter:
    """Measures the processors' load by other processes, over all the time spent in `running()`."""

    _process: psutil.Process = field(default_factory=psutil.Process)
    _others_seconds: float = 0.0
    _total_seconds: float = 0.0

    @property
    def share(self) -> float:
        """Returns the share of the processors' time that others took, 0 to 1; 0 if no time was spent."""
        return min(1.0, max(0.0, self._others_seconds / self._total_seconds)) if self._total_seconds else 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures the time inside the block."""
        began, busy, own = time.monotonic(), _busy_seconds(), self._own_seconds()
        try:
            yield
        finally:
            self._total_seconds += (time.monotonic() - began) * (psutil.cpu_count() or 1)
            self._others_seconds += (_busy_seconds() - busy) - (self._own_seconds() - own)

    def _own_seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


def _busy_seconds() -> float:
    """Returns the time that all processors together have worked. Guests are part of user."""
    times = psutil.cpu_times()
    parts = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, part, 0.0) for part in parts))
