"""States of rows, how large they may be, and the memory that a device has for them."""

import logging
import weakref
from dataclasses import astuple, fields
from types import SimpleNamespace

import pytest
import torch
from bertscope_service.encoders.device_memory import out_of_memory, release_cache, says_out_of_memory
from bertscope_service.encoders.size_limits import CARD_BYTES, LIMITS, SizeLimits, size_limits
from bertscope_service.encoders.state import State

WIDTH = 4


class Embedding:
    """Makes hidden states of two rows of 3 and 2 tokens, counting how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> torch.Tensor:
        self.calls += 1
        return torch.arange(2.0 * 3 * WIDTH).view(2, 3, WIDTH)


def batch(hidden: Embedding | torch.Tensor) -> State:
    return State(hidden, (3, 2), torch.tensor([[True, True, True], [True, True, False]]))


def test_an_embedding_that_fails_may_be_tried_again() -> None:
    attempts = []

    def embed() -> torch.Tensor:
        attempts.append(1)
        if len(attempts) == 1:
            raise MemoryError
        return torch.zeros(1, 1, WIDTH)

    state = State(embed, (1,), None)
    with pytest.raises(MemoryError):
        _ = state.hidden
    assert state.pending is embed
    assert state.hidden.shape == (1, 1, WIDTH)


def test_rows_and_stacks_are_the_same_whether_or_not_they_were_embedded() -> None:
    pending, embedded = batch(Embedding()), batch(Embedding()())
    assert pending.bytes == embedded.bytes == 2 * 3 * WIDTH * 4
    for state in (batch(Embedding()), embedded):
        rows = [state.row(index) for index in range(2)]
        assert [row.hidden.shape for row in rows] == [(1, 3, WIDTH), (1, 2, WIDTH)]
        again = State.stack(rows)
        assert (again.lengths, again.layer, again.pending) == ((3, 2), 0, None)
        assert torch.equal(again.hidden[0], embedded.hidden[0])
        assert torch.equal(again.hidden[1, :2], embedded.hidden[1, :2])
    alone = State.stack([State(lambda: torch.ones(1, 2, WIDTH), (2,), None)])
    assert torch.equal(alone.hidden, torch.ones(1, 2, WIDTH))


def test_a_row_holds_no_memory_of_its_batch_nor_a_batch_that_of_its_embedding() -> None:
    embedding = Embedding()
    state, made = batch(embedding), weakref.ref(embedding)
    del embedding
    row, hidden = state.row(1), weakref.ref(state.hidden)
    assert made() is None
    del state
    assert hidden() is None
    assert row.hidden.untyped_storage().nbytes() == 2 * WIDTH * 4


GPU = torch.device("cuda:0")


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_other_devices_than_gpus_have_the_limits_of_a_cpu(kind: str) -> None:
    assert size_limits(torch.device(kind)) is LIMITS["cpu"]


def with_memory(size: int, monkeypatch: pytest.MonkeyPatch) -> SizeLimits:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=size))
    return size_limits(GPU)


def test_a_gpu_of_less_memory_has_a_share_but_batches_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, least = LIMITS["cuda"], LIMITS["cpu"]
    assert with_memory(CARD_BYTES, monkeypatch) is whole
    assert with_memory(2 * CARD_BYTES, monkeypatch) is whole
    half = with_memory(CARD_BYTES // 2, monkeypatch)
    assert half.batch_tokens == whole.batch_tokens
    for field in fields(SizeLimits):
        if field.name != "batch_tokens":
            assert getattr(half, field.name) == getattr(whole, field.name) // 2
    small = with_memory(CARD_BYTES // 1000, monkeypatch)
    assert astuple(small)[1:] == astuple(least)[1:]


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
