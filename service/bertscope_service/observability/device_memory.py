"""Reports the memory that PyTorch holds on GPUs, and for copies from and to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class DeviceMemory(Collector):
    """Reports the memory that PyTorch holds on each GPU, and pinned memory of the host, read at each scrape.

    pinned: returns the bytes of pinned memory in use, and kept for later.
    """

    def __init__(self, pinned: Callable[[], tuple[int, int]]) -> None:
        self._pinned = pinned

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("bertscope_device_memory_bytes", "Memory PyTorch holds on a GPU", labels=["device"])
        for index in self._devices():
            family.add_metric([f"cuda:{index}"], torch.cuda.memory_reserved(index))
        yield family
        family = GaugeMetricFamily("bertscope_pinned_memory_bytes", "Pinned memory PyTorch holds on the host", labels=["state"])
        for state, size in zip(("used", "unused"), self._pinned(), strict=True):
            family.add_metric([state], size)
        yield family

    @staticmethod
    def _devices() -> Iterator[int]:
        # Reading the count before CUDA is used would initialise it, which costs memory and seconds.
        if torch.cuda.is_initialized():
            yield from range(torch.cuda.device_count())
