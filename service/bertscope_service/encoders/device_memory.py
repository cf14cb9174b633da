"""Recognises errors that mean that a device's memory was too small."""

from __future__ import annotations

import logging

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


def release_cache() -> None:
    """Returns memory that PyTorch keeps for later to all GPUs; waits for their running kernels.

    After an error that a GPU does not recover from it can't, and logs that: the model is gone from the server all the same.
    """
    if not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.empty_cache()
    except RuntimeError:
        logger.warning("a GPU does not give its memory back; it does when the server ends", exc_info=True)
