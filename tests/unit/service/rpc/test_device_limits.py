"""Limits of a device that the settings leave open."""

import pytest
import torch
from bertscope_service.rpc import hosting
from bertscope_service.rpc.hosting import QUEUE_TOKENS, device_limits
from bertscope_service.settings import Settings

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
GIB = 1 << 30


def settings(**given: int) -> Settings:
    return Settings.model_validate(given)


def test_a_queue_follows_the_rate_up_to_a_sixteenth_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "memory_limit", lambda: 16 * GIB)
    limits = device_limits(settings(), CPU)
    assert limits.waiting_tokens(0) == limits.waiting_tokens(1000) == QUEUE_TOKENS
    assert limits.waiting_tokens(200_000) == 2_000_000
    assert limits.waiting_tokens(1e9) == GIB // 256


def test_a_small_machine_lets_as_many_wait_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "memory_limit", lambda: GIB // 2)
    assert device_limits(settings(), CPU).waiting_tokens(1e9) == QUEUE_TOKENS


def test_settings_stay_what_they_say() -> None:
    limits = device_limits(settings(queue_tokens=77, batch_tokens=50), CPU)
    assert (limits.batch_tokens, limits.waiting_tokens(0), limits.waiting_tokens(1e9)) == (50, 77, 77)


def test_batches_follow_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: type("Card", (), {"total_memory": 80 * GIB}))
    assert [device_limits(settings(), device).batch_tokens for device in (CPU, GPU)] == [1024, 16_384]
