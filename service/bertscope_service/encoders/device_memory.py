"""Recognises errors that mean that a device's memory was too small, and gives memory back that PyTorch keeps for later."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import NamedTuple

import torch

logger = logging.getLogger(__name__)

PHRASES = (
    "can't allocate memory",  # PyTorch's CPU allocator
    "CUDA error: out of memory",  # torch.AcceleratorError, from a launch or the driver
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "Failed to allocate memory",  # ONNX Runtime's arenas
    "CUDA failure 2:",  # cudaErrorMemoryAllocation, by ONNX Runtime
    "std::bad_alloc",
    "bad allocation",
    "Available memory of",
)
"""Parts of the messages of errors that have no class of their own: PyTorch's, and ONNX Runtime's."""


def out_of_memory(error: BaseException) -> bool:
    """Returns whether a device's memory, or the host's, was too small."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and says_out_of_memory(error)


def says_out_of_memory(error: BaseException) -> bool:
    """Returns whether the message of an error, of any class, says so."""
    return any(phrase in str(error) for phrase in PHRASES)


PINNED_BYTES = 1024 * 1024 * 1024
"""The most pinned memory that PyTorch keeps for later. It keeps all that it ever had, by itself: of each size, a power of two,
what the most results that were held at a time took."""


class PinnedMemory(NamedTuple):
    """Memory of the host that GPUs copy from and to by themselves, which the system can't move: in use by results, and kept for
    later, bytes."""

    used: int
    unused: int


class _Results:
    """Counts the bytes of results in pinned memory, of any thread."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.RLock()  # what a thread that holds it collects may be a result

    def add(self, tensor: torch.Tensor) -> None:
        """Counts the memory of a tensor, which is a power of two, until nothing shares it any more."""
        storage = tensor.untyped_storage()
        if size := storage.nbytes():
            size = 1 << (size - 1).bit_length()
            self._change(size)
            weakref.finalize(storage, self._change, -size).atexit = False

    def _change(self, size: int) -> None:
        with self._lock:
            self.bytes += size


pinned_results = _Results()
"""Results of GPUs that are still in use."""


def pinned_memory() -> PinnedMemory:
    """Returns the pinned memory that PyTorch holds; none before CUDA is used.

    What is in use we count: of PyTorch's statistics that one is wrong up to 2.12, where memory that a kernel or a copy read or
    wrote is never taken off `active_bytes`, which grows by one instead.
    """
    if not torch.cuda.is_initialized():
        return PinnedMemory(0, 0)
    held = torch.cuda.host_memory_stats().get("allocated_bytes.current", 0)
    used = min(pinned_results.bytes, held)
    return PinnedMemory(used, held - used)


def bound_pinned_memory() -> None:
    """Returns pinned memory that is not in use to the host, if it is more than PINNED_BYTES."""
    if pinned_memory().unused > PINNED_BYTES:
        release_pinned_memory()


def release_pinned_memory() -> None:
    """Returns all pinned memory that is not in use to the host."""
    empty = getattr(torch.accelerator, "empty_host_cache", None)  # PyTorch has it since 2.13 or so
    (empty or torch._C._host_emptyCache)()


def release_cache() -> None:
    """Returns memory that PyTorch keeps for later to all GPUs, and to the host; waits for their running kernels.

    After an error that a GPU does not recover from it can't, and logs that: the model is gone from the server all the same.
    """
    if not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.empty_cache()
        release_pinned_memory()
    except RuntimeError:
        logger.warning("a GPU does not give its memory back; it does when the server ends", exc_info=True)
