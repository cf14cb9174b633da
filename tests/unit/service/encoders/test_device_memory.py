"""Which errors mean that a device's memory was too small, and what becomes of memory that a broken device keeps."""

import logging

import pytest
import torch
from bertscope_service.encoders.device_memory import out_of_memory, release_cache, says_out_of_memory

ORT = "Non-zero status code returned while running MatMul node. Name:'/layer.0/MatMul' Status Message: "


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
        MemoryError(),
    ],
    ids=lambda error: str(error)[:40],
)
def test_errors_of_pytorch_that_mean_no_memory(error: Exception) -> None:
    assert out_of_memory(error)


@pytest.mark.parametrize(
    "message",
    [
        ORT + "bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 1024",
        ORT + "CUDA error cudaErrorMemoryAllocation:out of memory; CUDA failure 2: out of memory ; GPU=0 ; hostname=h",
        ORT + "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0",
        ORT + "CUDNN failure 4000: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_errors_of_onnx_runtime_that_mean_no_memory(message: str) -> None:
    assert says_out_of_memory(Exception(message))  # It has a class for each status code.


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"),
        ValueError("Failed to allocate memory"),  # Ours would be no device's.
        RuntimeError("CUDA failure 200: invalid device image"),
    ],
    ids=lambda error: str(error)[:40],
)
def test_other_errors(error: Exception) -> None:
    assert not out_of_memory(error)


def test_a_broken_device_keeps_its_memory_and_costs_no_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", broken)
    with caplog.at_level(logging.WARNING):
        release_cache()
    assert "does not give its memory back" in caplog.text
    assert "illegal memory access" in caplog.text
