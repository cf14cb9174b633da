"""The pretended GPU sees the mistakes that it is there for: each is made on purpose, and found."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers import attention_statistics, masks, reading
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.hungry_rows import MIB, engine_with_memory
from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu import driver
from tests.support.pretended_gpu.memory import GPU
from tests.support.pretended_gpu.recording import watching
from tests.support.questions_of_rows import answers, numbers, sequences

pytestmark = pytest.mark.usefixtures("pretended")

TWO_DEVICES = "Expected all tensors to be on the same device"


@pytest.fixture(scope="module")
def encoder(checkpoint: Callable[[str], Path]) -> TorchEncoder:
    return load_encoder(checkpoint("bert"), "bert", device=DEVICE, precision="fp32", pack=False)


def ask(encoder: TorchEncoder, question: str = "FillMask candidates") -> list[np.ndarray[Any, Any]]:
    return numbers(answers(encoder, question, sequences(encoder)))


def stay(device: torch.device, *arrays: np.ndarray[Any, Any]) -> tuple[torch.Tensor, ...]:
    """Forgets to copy arrays to the device."""
    return tuple(map(torch.from_numpy, arrays))


@pytest.mark.parametrize(
    ("module", "question"),
    [(reading, "FillMask candidates"), (attention_statistics, "DescribeAttention")],
    ids=["ids", "weights"],
)
def test_tensors_that_were_left_on_the_host(
    encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch, module: Any, question: str
) -> None:
    monkeypatch.setattr(module, "place_arrays", stay)
    with pytest.raises(RuntimeError, match=TWO_DEVICES):
        ask(encoder, question)


def test_results_that_are_read_before_they_are_there(encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ask(encoder)
    monkeypatch.setattr(driver.Event, "synchronize", lambda self: None)
    found = ask(encoder)
    GPU.settle()
    assert any(not np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("mistake", "waits"),
    [
        (lambda logits: logits.max().item(), "item"),
        (lambda logits: logits[logits > 0], "mask as index"),
        (lambda logits: logits.cpu(), "copy to the host"),
    ],
    ids=["item", "mask", "cpu"],
)
def test_an_observer_that_waits(
    encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[torch.Tensor], object], waits: str
) -> None:
    make(mistake, monkeypatch)
    with watching() as seen:
        ask(encoder, "FillMask")
    assert {what for what, _ in seen.waits} == {waits}
    assert all("test_pretended_gpu.py" in where or "masks.py" in where for _, where in seen.waits)


def make(mistake: Callable[[torch.Tensor], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets an observer make a mistake with its logits."""
    read = masks.MaskObserver.read

    def wrong(logits: torch.Tensor, *rest: Any) -> Any:
        mistake(logits)
        return read(logits, *rest)

    monkeypatch.setattr(masks.MaskObserver, "read", staticmethod(wrong))


SAID = {
    "class": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB"),
    "accelerator": torch.AcceleratorError("CUDA error: out of memory"),
    "cublas": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
}


@pytest.mark.parametrize("error", SAID.values(), ids=list(SAID))
def test_no_memory_for_a_batch_halves_it(encoder: TorchEncoder, error: Exception) -> None:
    """Each of CUDA's ways to say it, in the middle of a batch."""

    async def run() -> None:
        async with engine_with_memory(encoder, 600 * MIB) as ask_engine:
            expected = await ask_engine([MIB])
            with GPU.failing(error, after=9):
                assert await ask_engine([MIB] * 4) == pytest.approx(expected * 4, abs=1e-4)

    asyncio.run(run())


def test_an_error_that_the_device_does_not_recover_from(encoder: TorchEncoder) -> None:
    """All work that follows fails; the engine says so, and ends."""
    error = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    async def run() -> None:
        async with engine_with_memory(encoder, 600 * MIB) as ask_engine:
            with GPU.failing(error, after=9, for_good=True):
                for _ in range(2):
                    with pytest.raises(Exception, match=r"illegal memory access|has failed"):
                        await ask_engine([MIB])

    asyncio.run(run())
