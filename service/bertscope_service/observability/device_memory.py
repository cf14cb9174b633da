"""Reports the memory that PyTorch holds on GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class DeviceMemory(Collector):
    """Reports the memory that PyTorch holds on each GPU, read at each scrape."""

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("bertscope_device_memory_bytes", "Memory PyTorch holds on a GPU", labels=["device"])
        for index in self._devices():
            family.add_metric([f"cuda:{index}"], torch.cuda.memory_reserved(index))
        yield family

    @staticmethod
    def _devices() -> Iterator[int]:
        # Reading the count before CUDA is used would initialise it, which costs memory and seconds.
        if torch.cuda.is_initialized():
            yield from range(torch.cuda.device_count())
