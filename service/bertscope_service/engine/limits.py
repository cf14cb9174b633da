"""Defines the limits of a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a device: tokens in a batch (padding included), tokens waiting, seconds a job may wait for others, CPU
    threads (0: one per physical core), seconds that any batch may take before the device counts as stalled (0: no limit)."""

    batch_tokens: int
    queue_tokens: int
    queue_seconds: float = 10.0
    threads: int = 0
    stall_seconds: float = 60.0
