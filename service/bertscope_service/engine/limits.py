"""Defines the limits of a device, and counts the processors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

UNMEASURED_GPU_RATE = 100_000.0
"""The tokens that a GPU is assumed to run in a second as long as no backlog was measured: the least bound rejects the last of
16 calls that come at once, of 16,384 tokens each. An H200 runs twenty times as many of a bert-base."""


@cache
def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a device: tokens in a batch (padding included), tokens waiting, seconds a job may wait for others, CPU
    threads (0: one per physical core), seconds that any batch may take before the device counts as stalled (0: no limit).

    most_queue_tokens: a device that runs more than `queue_tokens` in `queue_seconds` may have as many waiting, up to these.
    """

    batch_tokens: int
    queue_tokens: int
    queue_seconds: float = 10.0
    threads: int = 0
    stall_seconds: float = 60.0
    most_queue_tokens: int = 0

    def waiting_tokens(self, rate: float) -> int:
        """Returns how many tokens may wait for a device that runs `rate` tokens a second, 0 if that is unknown."""
        return max(self.queue_tokens, min(self.most_queue_tokens, int(self.queue_seconds * rate)))
