"""Bounds of what AblationService works on; what else it refuses is in tests/samples/."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from tests.support.harness import Failure, Host, refused
from tests.support.sweeps import (
    ZERO,
    Request,
    divergence,
    masked_lm,
    minimal_pairs,
    sweep,
)

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PROMPT = "The [MASK] sat."


def check(failure: Failure, field: str, reason: str, words: str = "") -> None:
    assert failure.fields == [field]
    assert failure.info.reason == reason
    assert words in failure.message
    assert "\n" not in failure.message


def test_pairs_of_too_much_work(lab: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertscope_service.analyses.objectives.minimal_pairs.MAX_ROW_TOKENS", 100)
    assert sweep(lab, objective=minimal_pairs([("The cat.", "Cat the.")])).start.items == 1
    with refused(INVALID) as failures:
        sweep(lab, objective=minimal_pairs([("The cat.", "Cat the.")] * 4))
    check(failures[0], "objective.minimal_pairs.pairs", "TOO_MUCH_WORK", "send fewer or shorter ones")


@pytest.mark.slow
def test_limits_come_from_the_settings(launch: Callable[..., Host]) -> None:
    small = launch(max_text_characters=30, sweep_memory_bytes=5000)
    assert sweep(small, objective=divergence([PROMPT])).start.items == 1
    with refused(INVALID) as failures:
        sweep(small, objective=divergence([PROMPT + "x" * 30]))
    assert "takes 30" in failures[0].message
    with refused(INVALID) as failures:
        sweep(small, objective=divergence([PROMPT]), memory_bytes=5001)
    check(failures[0], "memory_bytes", "MEMORY_OUT_OF_RANGE", "allows 1 to 5000")
    assert sweep(small, objective=divergence([PROMPT]), memory_bytes=5000).start.items == 1


@pytest.mark.slow
def test_a_flood_of_empty_messages(lab: Host) -> None:
    for field in (b"\x22\x00", b"\x42\x00"):  # sets, interventions
        with refused(INVALID):
            lab.raw_stream("AblationService/SweepHeads", masked_lm_bytes() + field * 1_000_000)
    with refused(INVALID):
        lab.raw("AblationService/PruneHeads", b"\x1a\x00" * 1_000_000)


def masked_lm_bytes() -> bytes:
    return Request(objective=masked_lm(["The cat."]), mode=ZERO).SerializeToString()
