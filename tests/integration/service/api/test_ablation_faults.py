"""What goes wrong in a sweep stays in that sweep, and a sweep is not felt by others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import model_pb2 as model

from tests.support.harness import CALL_SECONDS, Held, Host, held, interactive_rows_wait
from tests.support.patience import granted, wait_until
from tests.support.sweeps import (
    ZERO,
    Request,
    Sweep,
    divergence,
    head_set,
)

GOOD = cloze.FillMaskRequest(texts=["The [MASK] sat."])
TOKENS = 6
"""[CLS] the [MASK] sat . [SEP]"""

TEXTS = [f"The {word} is in the [MASK]." for word in ("cat", "dog", "man", "bird", "house", "city", "river", "garden")]
EXHAUSTED, CANCELLED = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED


def waiting(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


def rows(host: Host) -> float:
    return host.metric("bertscope_batch_rows_sum", device="cpu")


def in_flight(host: Host, method: str = "SweepHeads") -> float:
    return host.metric("bertscope_requests_in_flight", method=method)


def dropped(host: Host, reason: str) -> float:
    return host.metric("bertscope_rows_dropped_total", reason=reason)


def start(host: Host, timeout: float | None = granted(60), **fields: Any) -> Any:
    fields = {"mode": ZERO, "objective": divergence(TEXTS)} | fields
    return host.ablation.SweepHeads(Request(**fields), timeout=timeout)


def many_sets(count: int) -> list[ablation.HeadSet]:
    """Sets of heads of all four layers, all of which begin in the lowest."""
    choices = [tuple(head for head in range(4) if number >> head & 1) for number in range(1, 16)]
    found = []
    for numbers in product(choices, repeat=4):
        if len(found) == count:
            break
        found.append(head_set(tuple(enumerate(numbers))))
    return found


class Steps:
    """Lets batches through one by one."""

    def __init__(self, gate: Held) -> None:
        self._gate = gate
        self._released = 0

    @property
    def held(self) -> bool:
        """Whether a batch waits to be let through."""
        return self._gate.arrived > self._released

    def let_through(self, batches: int) -> None:
        self._gate.let_through(batches)
        self._released += batches

    def until(self, condition: Callable[[], object]) -> None:
        """Let batches through until the condition holds."""
        while not condition():
            wait_until(lambda: self.held or condition(), "a batch arrives")
            if self.held:
                self.let_through(1)


@pytest.fixture
def small(launch: Callable[..., Host], checkpoints: dict[str, Path]) -> Host:
    """A server of small batches that hosts models/a (the default) and models/b."""
    return launch(model=[f"{name}={checkpoints['bert']}" for name in ("a", "b")], batch_tokens=64)


@pytest.mark.slow
def test_rows_of_a_cancelled_sweep_are_dropped_and_the_model_can_be_unloaded(
    small: Host, check_alive: Callable[[Host], None]
) -> None:
    before, computed = dropped(small, "cancelled"), rows(small)
    with held(small) as gate:
        steps = Steps(gate)
        call = start(small, sets=many_sets(40))
        # The baseline, the states before the lowest layer, and one head.
        steps.until(lambda: rows(small) >= computed + 3 * len(TEXTS))
        assert next(call).HasField("start")
        wait_until(lambda: steps.held and waiting(small) > 5, "it is in the middle")
        arrived, waited = gate.arrived, waiting(small)
        call.cancel()
        wait_until(lambda: waiting(small) == 0 and in_flight(small) == 0, "its rows are dropped while a batch runs")
        assert small.metric("bertscope_queue_tokens", device="cpu") == 0
        assert dropped(small, "cancelled") >= before + waited
        unloading = small.models.UnloadModel.future(model.UnloadModelRequest(name="models/a"), timeout=CALL_SECONDS)
        assert unloading.result() == model.UnloadModelResponse()
    check_alive(small)
    assert gate.arrived == arrived


@pytest.mark.slow
def test_cloze_calls_go_before_the_rows_of_a_sweep(small: Host) -> None:
    with held(small) as gate:
        steps = Steps(gate)
        call, computed = start(small, sets=many_sets(40)), rows(small)
        steps.until(lambda: rows(small) >= computed + 3 * len(TEXTS))
        for _ in range(5):
            wait_until(lambda: steps.held and waiting(small) > 5, "a batch of the sweep runs, others wait")
            answer = small.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
            wait_until(lambda: interactive_rows_wait(small), "the call waits")
            done = rows(small)
            steps.let_through(2)  # the batch that runs, and the next one: the call's
            assert len(answer.result().results) == 1
            assert rows(small) - done <= 64 // TOKENS + 1
        assert in_flight(small) == 1
        gate.let_through()
        assert len(Sweep(list(call)).effects) == 40
