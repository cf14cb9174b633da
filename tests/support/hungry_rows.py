"""Rows that take as much of a GPU's memory as they are told, and an engine that has only so much of it."""

from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import torch
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support.on_gpu import DEVICE, need

MIB = 1024 * 1024


class Hungry:
    """Takes `share` bytes of the device for each row, twice, while it runs."""

    group: Hashable = None

    def __init__(self, share: int) -> None:
        self.share = share

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence[Self]) -> Any:
        from bertscope_service.encoders.observer import Readout

        size = sum(observer.share for observer in observers)
        held = [torch.zeros(size, dtype=torch.uint8, device=encoder.device) for _ in range(2)]
        encoder.advance(state, encoder.shape.layers, gates)
        sizes = torch.full((len(observers),), float(len(held)), device=encoder.device)
        return Readout((state.hidden[:, 0].float().sum(dim=-1), sizes), lambda arrays: arrays[0].tolist())


@asynccontextmanager
async def engine_with_memory(encoder: TorchEncoder, free_bytes: int) -> AsyncIterator[Callable[[Sequence[int]], Any]]:
    """Runs rows that are each as hungry as told, while PyTorch may take only so many bytes more."""
    need("prometheus_client")
    from bertscope_service.encoders.sequences import TokenSequence
    from bertscope_service.engine.engine import Engine
    from bertscope_service.engine.limits import Limits
    from bertscope_service.engine.rows import Row
    from bertscope_service.observability.metrics import Metrics

    engine = Engine(lambda _: Limits(batch_tokens=4096, queue_tokens=100_000), Metrics())

    async def run(shares: Sequence[int]) -> list[float]:
        rows: list[Any] = [Row(encoder, TokenSequence([2, 5, 3], [0, 0, 0]), Hungry(share)) for share in shares]
        return await engine.run(rows, client="client")

    await run([MIB])  # what the first run allocates for good must not count
    torch.cuda.synchronize(DEVICE)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(DEVICE) + free_bytes) / total, DEVICE)
    try:
        yield run
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, DEVICE)
        await engine.close()
