"""A batch of rows that a device runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.device_memory import out_of_memory
from bertscope_service.encoders.gating import enter
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import to_host
from bertscope_service.engine.limits import processors
from bertscope_service.engine.rows import Row

FEW_PROCESSORS = 4
"""Up to so many, a thread that waits for a GPU sleeps, some 50 us longer: spinning takes a processor from all else."""


@dataclass(slots=True)
class LaunchedBatch:
    """A launched batch, whose results are being copied to the host; `copied` is None on a CPU, which needs no copy.

    `repeatable`: its rows could run again; rows that continued from a kept state have used it up. `began` and `advanced`, when
    its layers had run, are time.perf_counter(). On a GPU `advanced` is known once the results are on the host, on a CPU only if
    a row's call is traced; it is `began` until then.
    """

    rows: Sequence[Row]
    repeatable: bool
    readout: Readout
    host: tuple[torch.Tensor, ...]
    copied: torch.cuda.Event | None
    began: float
    advanced: float

    @property
    def host_bytes(self) -> int:
        """The size of the results."""
        return sum(tensor.nbytes for tensor in self.host)

    @property
    def ended(self) -> bool:
        """True once the results are on the host, or the device has failed, which `results` raises then."""
        try:
            return self.copied is None or self.copied.query()
        except RuntimeError:
            return True

    def results(self) -> Sequence[Any]:
        """Returns one result for each row, once they are on the host. Raises errors of the device, and RuntimeError if the
        observer returns more or fewer results than rows, which could not be assigned to rows."""
        if self.copied is not None:
            self.copied.synchronize()
            self.advanced = time.perf_counter()
        results = self.readout.deal(tuple(tensor.numpy() for tensor in self.host))
        if len(results) != len(self.rows):
            name = type(self.rows[0].observer).__name__
            raise RuntimeError(f"{name} dealt out {len(results)} results to {len(self.rows)} rows")
        return results


class _Timed:
    """An encoder that also records when its `advance` last returned, as time.perf_counter(); `began` until then."""

    def __init__(self, encoder: Encoder, began: float) -> None:
        self._encoder = encoder
        self.advanced = began

    def advance(self, *arguments: Any, **options: Any) -> None:
        self._encoder.advance(*arguments, **options)
        self.advanced = time.perf_counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


def launch(rows: Sequence[Row], device: torch.device, began: float) -> LaunchedBatch:
    """Starts a batch of rows that may share one; `began` is a time.perf_counter(). Raises the errors of the encoder and the
    observers."""
    timed = None
    encoder = rows[0].encoder
    if device.type == "cpu" and any(job.timeline is not None for job in {row.job for row in rows}):
        timed = _Timed(encoder, began)
        encoder = cast(Encoder, timed)
    states = [row.state for row in rows if row.state is not None]
    state = State.stack(states) if states else encoder.begin([row.sequence for row in rows])
    edits = encoder.place_edits([row.edits for row in rows])
    if edits is not None:
        enter(state, edits, kept=bool(states))
    readout = type(rows[0].observer).run(encoder, state, edits, [row.observer for row in rows])
    if states:
        for row in rows:
            row.state = None  # a kept state is used once
    if device.type != "cuda":
        advanced = began if timed is None else timed.advanced
        return LaunchedBatch(rows, not states, readout, tuple(each.cpu() for each in readout.tensors), None, began, advanced)
    host = to_host(readout.tensors)
    copied = torch.cuda.Event(blocking=processors() <= FEW_PROCESSORS)
    copied.record(torch.cuda.current_stream(device))
    return LaunchedBatch(rows, not states, readout, host, copied, began, began)


NO_KERNEL = "could not create a primitive"
"""oneDNN's only message when it found no memory for a kernel. In this process it never makes that kernel again, and often no
other either, however much memory there is later."""


def answers(device: torch.device, error: Exception) -> bool:
    """Returns whether a device still computes after an error. After some errors, CUDA rejects all work until the process ends;
    on a CPU, oneDNN does."""
    if isinstance(error, RuntimeError) and str(error) == NO_KERNEL:
        return False
    try:
        return torch.ones(1, dtype=torch.float32, device=device).sum().item() == 1
    except Exception as another:  # noqa: BLE001 - any error means that the device did not compute
        return out_of_memory(another)
