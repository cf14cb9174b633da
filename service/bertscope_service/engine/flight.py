"""A batch of rows on its way through a device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bertscope_service.analyses.observer import Readout
from bertscope_service.encoders.base import State
from bertscope_service.engine.rows import Row


@dataclass(slots=True)
class Flight:
    """A batch that was launched: its results are on their way to the host; `landed` is None on a CPU, where they are there.

    `repeatable`: its rows could run again; those that continued from a kept state have used it up. `began` and `advanced`, when
    its layers had run, are time.perf_counter(); on a GPU the second is known once the results are on the host.
    """

    rows: Sequence[Row]
    repeatable: bool
    readout: Readout
    host: tuple[torch.Tensor, ...]
    landed: torch.cuda.Event | None
    began: float
    advanced: float

    def results(self) -> Sequence[Any]:
        """One for each row, once they are on the host. Errors of the device surface here."""
        if self.landed is not None:
            self.landed.synchronize()
            self.advanced = time.perf_counter()
        return self.readout.deal(tuple(tensor.numpy() for tensor in self.host))


def launch(rows: Sequence[Row], device: torch.device, began: float) -> Flight:
    """Start a batch of rows that may share one; `began` is a time.perf_counter(). Raises what the encoder and the observers
    raise."""
    encoder = rows[0].encoder
    states = [row.state for row in rows if row.state is not None]
    state = State.stack(states) if states else encoder.begin([row.sequence for row in rows])
    gates = encoder.place_gates([row.gates for row in rows])
    readout = type(rows[0].observer).run(encoder, state, gates, [row.observer for row in rows])
    for row in rows:
        row.state = None  # a kept state is used once
    if device.type == "cpu":
        return Flight(rows, not states, readout, readout.tensors, None, began, state.advanced or began)
    host = tuple(tensor.to("cpu", non_blocking=True) for tensor in readout.tensors)
    landed = torch.cuda.Event()
    landed.record(torch.cuda.current_stream(device))
    return Flight(rows, not states, readout, host, landed, began, began)


def out_of_memory(error: Exception) -> bool:
    """Whether a device's memory was too small. PyTorch's CPU allocator has no class of its own for that."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def answers(device: torch.device) -> bool:
    """Whether a device still computes. After some errors CUDA refuses all work until the process ends."""
    try:
        return torch.ones(1, device=device).sum().item() == 1
    except Exception as error:  # noqa: BLE001 - whatever it says, it is no answer
        return out_of_memory(error)
