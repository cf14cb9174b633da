"""Limits of size follow the type of a device and, on a GPU, its memory."""

from dataclasses import astuple, fields
from types import SimpleNamespace

import pytest
import torch
from bertscope_service.encoders.size_limits import CARD_BYTES, LIMITS, SizeLimits, size_limits

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
