"""The memory of a pretended GPU, its late copies, and the failures that it was told."""

import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch

MIB = 1024 * 1024
TOTAL_BYTES = 80 << 30


class Device:
    """What all tensors of the pretended devices share."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._late: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._failures: list[tuple[int, Exception, bool]] = []
        self.allocated = 0
        """Bytes of tensors made since a limit was set."""
        self.pinned = 0
        """Bytes of pinned memory, in use or kept for later: as PyTorch's, of sizes that are powers of two, and for ever."""
        self.active = 0
        """What PyTorch 2.11 and 2.12 tell of pinned memory in use: memory that is given back adds 1, and takes nothing off."""
        self._kept: Counter[int] = Counter()
        self._given: list[int] = []
        self.limit: int | None = None
        """The most bytes that may be allocated; None for no limit, and no counting."""

    def copy_late(self, target: torch.Tensor, values: torch.Tensor) -> None:
        """Fills `target` with garbage until its copy is waited for."""
        garbage = float("nan") if target.is_floating_point() else True if target.dtype == torch.bool else 113
        write(target, garbage)
        with self._lock:
            self._late.append((target, values))

    def late(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Returns the copies that are under way."""
        with self._lock:
            return list(self._late)

    def settle(self, copies: list[tuple[torch.Tensor, torch.Tensor]] | None = None) -> None:
        """Ends the given copies, or all."""
        with self._lock:
            for pair in list(self._late) if copies is None else copies:
                if any(pair is one for one in self._late):
                    write(*pair)
                    self._late[:] = [one for one in self._late if one is not pair]

    def take(self, tensor: torch.Tensor, of: torch.Tensor) -> None:
        """Counts the memory of a new tensor until it is gone. Raises torch.OutOfMemoryError."""
        if self.limit is None:
            return
        size = of.numel() * of.element_size()
        if self.allocated + size > self.limit:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / MIB:.2f} MiB")
        self.allocated += size
        weakref.finalize(tensor, self._give, size)

    def _give(self, size: int) -> None:
        self.allocated -= size

    def pin(self, tensor: torch.Tensor) -> None:
        """Counts the pinned memory of a tensor until all that share it are gone."""
        size = 1 << max(0, tensor.untyped_storage().nbytes() - 1).bit_length()
        with self._lock:
            self._keep()
            if self._kept[size]:
                self._kept[size] -= 1
            else:
                self.pinned += size
            self.active += size
        weakref.finalize(tensor.untyped_storage(), self._given.append, size)

    def _keep(self) -> None:
        """Keeps for later what was given back: PyTorch looks for it when memory is asked for or released, and not before."""
        while self._given:
            self._kept[self._given.pop()] += 1
            self.active += 1

    def release_pinned(self) -> None:
        """Gives back the pinned memory that no tensor uses."""
        with self._lock:
            self._keep()
            self.pinned -= sum(size * count for size, count in self._kept.items())
            self._kept.clear()

    @contextmanager
    def failing(self, error: Exception, *, after: int = 0, for_good: bool = False) -> Iterator[None]:
        """Raises an error at a launch, after so many others: once, or at all that follow, as a device that is broken."""
        failure = (after, error, for_good)
        self._failures.append(failure)
        try:
            yield
        finally:
            self._failures.clear()

    def launched(self) -> None:
        """Raises the failure that is due."""
        if not self._failures:
            return
        with self._lock:
            after, error, for_good = self._failures[0]
            self._failures[0] = (max(0, after - 1), error, for_good)
            if after:
                return
            if not for_good:
                self._failures.clear()
        raise error


def write(target: torch.Tensor, values: torch.Tensor | float) -> None:
    """Fills a tensor of the host, whatever is watched."""
    with torch._C._DisableTorchDispatch(), torch.inference_mode():
        target.copy_(values) if isinstance(values, torch.Tensor) else target.fill_(values)


GPU = Device()
