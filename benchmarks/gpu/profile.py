"""Profiles cloze: the kernels that take the longest, and how long the device waits between two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from bertscope_service.encoders.torch.encoder import TorchEncoder
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.cloze import cloze_batch, cloze_rows
from benchmarks.gpu.device import synchronize
from benchmarks.gpu.report import Row

BATCHES = 5
KERNELS = 5


def measure_profile(encoder: TorchEncoder, length: int, sizes: tuple[int, ...], *, kernels: bool) -> Iterator[Row]:
    """Profiles batches of these numbers of tokens, texts of `length`: a batch's time, and what the device does in it. Without
    `kernels`, the operations of the host stand for them, as a trial."""
    for tokens in sizes:
        rows = cloze_rows(encoder, length, max(1, tokens // length))
        cloze_batch(rows)
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if kernels else [])]
        with profile(activities=activities) as found:
            for _ in range(BATCHES):
                cloze_batch(rows)
            synchronize(encoder.device)
        yield from _rows(list(found.events()), f"{tokens:,} tokens")


def _rows(events: list[Any], what: str) -> Iterator[Row]:
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    shown = kernels or [event for event in events if not event.cpu_children]  # of a CPU, its operations
    if not shown:
        yield f"{what}: the profiler saw nothing", "", "", ""
        return
    spans = [(event.time_range.start, event.time_range.end) for event in shown]
    whole, busy = max(end for _, end in spans) - min(begin for begin, _ in spans), covered(spans)
    yield (
        f"{what}: kernels / a batch, the device works",
        f"{busy / BATCHES / 1000:.2f} ms",
        f"{whole / BATCHES / 1000:.2f} ms",
        f"{busy / whole:.0%}",
    )
    yield f"{what}: kernels of a batch, the device waits", f"{len(shown) / BATCHES:.0f}", "", f"{(whole - busy) / whole:.0%}"
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event, (begin, end) in zip(shown, spans, strict=True):
        times[event.name] += end - begin
        counts[event.name] += 1
    for name, taken in islice(times.most_common(), KERNELS):
        yield f"  {name}", f"{taken / BATCHES / 1000:.3f} ms", f"{counts[name] / BATCHES:.0f} times", f"{taken / busy:.0%}"


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Returns how much lies in at least one of some spans (begin, end)."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
