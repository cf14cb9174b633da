"""A batch of rows on its way through a device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bertscope_service.analyses.observer import Readout
from bertscope_service.encoders.base import State
from bertscope_service.engine.rows import Row


@dataclass(slots=True)
class Flight:
    """A batch that was launched: its results are on their way to the host; `landed` is None on a CPU, where they are there.

    `kind` is the key that its rows had when they began.
    """

    rows: Sequence[Row]
    kind: Hashable
    readout: Readout
    host: tuple[torch.Tensor, ...]
    landed: torch.cuda.Event | None
    began: float

    def results(self) -> Sequence[Any]:
        """One for each row, once they are on the host. Errors of the device surface here."""
        if self.landed is not None:
            self.landed.synchronize()
        return self.readout.deal(tuple(tensor.numpy() for tensor in self.host))


def launch(rows: Sequence[Row], device: torch.device, began: float) -> Flight:
    """Start a batch of rows that may share one; `began` is a time.perf_counter(). Raises what the encoder and the observers
    raise."""
    encoder, kind = rows[0].encoder, rows[0].key
    states = [row.state for row in rows if row.state is not None]
    state = State.stack(states) if states else encoder.begin([row.sequence for row in rows])
    gates = encoder.place_gates([row.gates for row in rows])
    readout = type(rows[0].observer).run(encoder, state, gates, [row.observer for row in rows])
    for row in rows:
        row.state = None  # a kept state is used once
    if device.type == "cpu":
        return Flight(rows, kind, readout, readout.tensors, None, began)
    host = tuple(tensor.to("cpu", non_blocking=True) for tensor in readout.tensors)
    landed = torch.cuda.Event()
    landed.record(torch.cuda.current_stream(device))
    return Flight(rows, kind, readout, host, landed, began)


def out_of_memory(error: Exception) -> bool:
    """Whether a device's memory was too small. PyTorch's CPU allocator has no class of its own for that."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )
