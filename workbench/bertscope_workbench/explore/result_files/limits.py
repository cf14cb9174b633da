"""Limits what the reading of one file may take, where the system has such limits: Windows has none of them."""

from __future__ import annotations

import sys

MEMORY_BYTES = 1 << 30
MEMORY = f"{MEMORY_BYTES >> 20} MiB of memory"
PROCESSOR_SECONDS = 20
"""Processor time, not time by the clock: a busy machine reads as much."""


def limit() -> None:
    """Limits this process: beyond the memory an allocation fails, beyond the time the process ends."""
    if sys.platform == "win32":
        return
    import resource

    # The libraries that are loaded count as well.
    for kind, most in ((resource.RLIMIT_AS, MEMORY_BYTES + _mapped()), (resource.RLIMIT_CPU, PROCESSOR_SECONDS)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, hard))


def _mapped() -> int:
    """Returns the bytes of address space that this process has already; 0 where the system doesn't say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * 4096
    except OSError:
        return 0
