"""Keeps the states of spans while probes are trained on them: in memory, or in a file where they don't fit."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import to_device
from bertscope_service.errors import FailedPrecondition, InvalidArgument, Overloaded

RETRY_SECONDS = 10.0
CONSTANT = 1e-6
"""A dimension whose standard deviation is a smaller share of its mean is constant up to rounding."""


class StateSpace:
    """The memory and the disk space for the states of all calls together. It belongs to the event loop."""

    def __init__(self, memory_bytes: int, disk_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.disk_bytes = disk_bytes
        self._memory = 0
        self._disk = 0

    @contextmanager
    def hold(self, states: int, probes: int, most: int) -> Iterator[bool]:
        """Reserves room for states and probes, bytes, within `most` bytes of memory. Yields whether the states are kept in a
        file.

        Raises InvalidArgument if they can never fit, and Overloaded if other calls have the room now.
        """
        if probes > most:
            message = f"memory_bytes is {most} and training takes {probes}; allow that much, or ask for fewer layers or classes"
            raise InvalidArgument("memory_bytes", message, "MEMORY_TOO_SMALL", needed=probes)
        on_disk = probes + states > most
        if on_disk and states > self.disk_bytes:
            message = (
                f"the states of these spans take {states} bytes, more than this server keeps in memory ({most}) "
                f"or in a file ({self.disk_bytes}); send fewer texts or ask for fewer layers"
            )
            raise InvalidArgument("train", message, "STATES_TOO_LARGE", needed=states, limit=self.disk_bytes)
        memory, disk = probes + states * (not on_disk), states * on_disk
        if self._memory + memory > self.memory_bytes or self._disk + disk > self.disk_bytes:
            message = "what other calls train takes up the server's memory for states now; try again later"
            raise Overloaded(message, "PROBE_MEMORY", RETRY_SECONDS)
        self._memory += memory
        self._disk += disk
        try:
            yield on_disk
        finally:
            self._memory -= memory
            self._disk -= disk


class SpanStates:
    """The states of spans, float32 [spans, layers, hidden], and the mean and the inverse standard deviation of each dimension
    over the training spans, float32 [layers, hidden] each, on the device. Only `add` may be called outside its thread."""

    def __init__(self, shape: tuple[int, int, int], device: torch.device, *, on_disk: bool) -> None:
        """Takes the room for the states. Raises FailedPrecondition if the disk is full."""
        self._array = _file(shape) if on_disk else np.empty(shape, dtype=np.float32)
        self._filled = 0
        self._settled = False
        self.values = torch.from_numpy(self._array)
        self._room: torch.Tensor | None = None
        self.mean, self.scale = (torch.zeros(shape[1:], dtype=torch.float32, device=device) for _ in range(2))
        self._sums = torch.zeros((2, *shape[1:]), dtype=torch.float64, device=device)

    def add(self, states: NDArray[np.float32]) -> None:
        """Adds the states of some spans, after those added before."""
        end = self._filled + len(states)
        self._array[self._filled : end] = states
        self._filled = end

    def make_room(self) -> bool:
        """Makes room for all states on a device that is not the host. Returns False if they stay on the host."""
        device = self.mean.device
        if self._array.nbytes > size_limits(device).kept_bytes:
            return False
        with suppress(torch.OutOfMemoryError):
            self._room = torch.empty(self._array.shape, dtype=torch.float32, device=device)
        return self._room is not None

    def bring(self, chosen: slice) -> None:
        """Copies some states to that room, when all were added."""
        if self._room is not None:
            self._room[chosen] = to_device(self.values[chosen], self._room.device)

    def end_bringing(self) -> None:
        """Reads states from that room from now on, and gives the host's memory back."""
        if self._room is not None:
            self.values, self._room = self._room, None
            self._array = np.empty(0, dtype=np.float32)

    def measure(self, chosen: slice) -> None:
        """Adds some training spans to those that mean and deviation are taken over."""
        away = self._away(chosen)
        self._sums[0] += away.sum(dim=0, dtype=torch.float64)
        self._sums[1] += away.square_().sum(dim=0, dtype=torch.float64)

    def standardise(self, training: int) -> None:
        """Sets mean and scale when all `training` spans were measured. The scale of a constant dimension is 0."""
        away, square = self._sums / training
        deviation = (square - away.square()).clamp_(min=0).sqrt_()
        mean = self.values[0].to(away) + away
        varies = deviation > CONSTANT * (mean.abs() + CONSTANT)
        self.mean, self.scale = mean.float(), torch.where(varies, 1 / deviation, 0).float()

    def settle(self, chosen: slice) -> None:
        """Replaces the states of some spans, each once, by the standardised ones."""
        self.values[chosen] = self.read(chosen)

    def end_settling(self) -> None:
        """Makes `read` return states as they are kept, when all were settled."""
        self._settled = True

    def read(self, chosen: slice | torch.Tensor, layers: slice = slice(None)) -> torch.Tensor:
        """Returns the standardised states of some spans and layers, on the device; not to be written to."""
        where = chosen if isinstance(chosen, slice) else to_device(chosen, self.values.device)
        read = self.values[:, layers][where].to(self.mean.device)
        return read if self._settled else read.sub(self.mean[layers]).mul_(self.scale[layers])

    def raw(self, chosen: slice, layer: int) -> torch.Tensor:
        """Returns the states of some spans in one layer as the model gives them, [spans, hidden], before any are settled."""
        return self.values[chosen, layer].to(self.mean.device)

    def _away(self, chosen: slice) -> torch.Tensor:
        """Returns some states minus the first one: sums of squares lose fewer digits around a value near the mean."""
        values = self.values[chosen].to(self.mean.device)
        return values - self.values[0].to(self.mean.device)


def _file(shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Returns an array in a temporary file, which is deleted with the array, whatever ends the process."""
    size = 4 * shape[0] * shape[1] * shape[2]
    with tempfile.TemporaryFile(prefix="bertscope-states-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk ends a process that writes to a mapped page
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            message = f"the server's disk has no room for the states of these spans, {size} bytes; send fewer texts"
            raise FailedPrecondition(message, "DISK_FULL") from None
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)
