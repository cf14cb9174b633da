"""What goes wrong in a sweep stays in that sweep, and a sweep is not felt by others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import model_pb2 as model
from bertscope_service.api import ablation as servicer
from bertscope_service.api import answer

from tests.support.harness import CALL_SECONDS, Failure, Held, Host, LoopThread, held, interactive_rows_wait, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import (
    MEAN,
    ZERO,
    Request,
    Sweep,
    cloze_prompts,
    divergence,
    head_set,
    heads_of,
    rank,
    sweep,
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


# Leaving


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


def check_prefix(received: list[ablation.SweepHeadsResponse], whole: Sweep) -> None:
    """What came before an end is right, and it is not all."""
    assert len(received) < len(whole.responses)
    for found, expected in zip(received, whole.responses, strict=False):
        assert found.WhichOneof("event") == expected.WhichOneof("event")
        if found.HasField("start"):
            assert found.start.total == expected.start.total
        else:
            assert heads_of(found.effect.heads) == heads_of(expected.effect.heads)
            mine, theirs = found.effect.metrics[0], expected.effect.metrics[0]
            assert mine.score == pytest.approx(theirs.score, abs=1e-5)


# Slow readers, full queues, others


@pytest.mark.slow
def test_a_reader_who_does_not_read_pauses_the_sweep_and_still_gets_everything(
    small: Host, check_alive: Callable[[Host], None]
) -> None:
    sets = many_sets(1500)
    objective = cloze_prompts([("The [MASK] sat.", ("cat",)), ("A [MASK] ran.", ("dog",))])
    fields = {"mode": ZERO, "objective": objective, "sets": sets, "bootstrap": ablation.Bootstrap(resamples=100)}
    total = 2 * len(sets)
    # The least that may be on its way: without these the transport would grow its windows.
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(small.target, options) as channel:
        begun = rows(small)
        call = type(small.ablation)(channel).SweepHeads(Request(**fields), timeout=granted(100))
        first = next(call)
        asked, last = 0, -1.0
        # A good call takes the server's loop and its worker a turn: when none of a hundred moves the sweep, it stands still.
        while asked < 5000:
            for _ in range(100):
                check_alive(small)
            asked += 100
            now = rows(small) - begun - asked
            if now == last:
                break
            last = now
        assert now == last < total / 2
        assert waiting(small) == 0
        assert in_flight(small) == 1
        found = Sweep([first, *call])
    assert [heads_of(effect.heads) for effect in found.effects] == [heads_of(heads) for heads in sets]
    for index in range(0, len(sets), 100):
        alone = sweep(small, **fields | {"sets": [sets[index]]}).effects[0]
        for mine, theirs in zip(found.effects[index].metrics, alone.metrics, strict=True):
            assert mine.score == pytest.approx(theirs.score, abs=1e-5)


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


@pytest.mark.slow
def test_large_requests_are_checked_off_the_loop(small: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand sets, or answers by the million, take seconds, and so do items to tokenize."""
    usual, ranked, on_loop = sweep(small, objective=divergence(TEXTS)), rank(small, objective=cloze_prompts()), list[bool]()

    def watched(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(*arguments: Any, **named: Any) -> Any:
            on_loop.append(asyncio._get_running_loop() is not None)
            return parse(*arguments, **named)

        return parsed

    for module, name in ((servicer, "parse_objective"), (servicer, "parse_sweep"), (answer, "check_reference_texts")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    np.testing.assert_allclose(sweep(small, objective=divergence(TEXTS)).numbers, usual.numbers, atol=1e-5)
    assert rank(small, objective=cloze_prompts()).items == ranked.items
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        sweep(small, objective=divergence(TEXTS), mode=MEAN)
    assert failures[0].info.reason == "REFERENCE_TEXTS_MISSING"
    assert on_loop == [False] * 6


# Stopping


@pytest.mark.slow
def test_a_stop_without_grace_cuts_a_sweep_off_and_what_came_is_right(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch(batch_tokens=64)
    alone = sweep(host, objective=divergence(TEXTS))
    with held(host) as gate:
        call = start(host)
        gate.let_through(12)
        received = [next(call), next(call)]
        wait_until(lambda: gate.arrived == 13, "it is in the middle")
        stopping = asyncio.run_coroutine_threadsafe(host.server.stop(0), loop.loop)
        with pytest.raises(grpc.RpcError) as caught:
            received.extend(call)
        assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, CANCELLED)
        gate.let_through()
        stopping.result(CALL_SECONDS)
    check_prefix(received, alone)
    assert in_flight(host) == 0


# Bugs and broken models


def explode_after(host: Host, batches: int) -> Any:
    loaded = host.server.registry.find("").loaded
    assert loaded is not None
    encoder, seen = loaded.encoder, [0]

    def advance(*args: Any, **options: Any) -> None:
        seen[0] += 1
        if seen[0] > batches:
            raise RuntimeError("the inner text of a bug")
        type(encoder).advance(encoder, *args, **options)

    vars(encoder)["advance"] = advance
    return encoder


@pytest.mark.slow
def test_a_bug_in_a_batch_is_internal_with_an_id_and_the_server_goes_on(
    small: Host, check_alive: Callable[[Host], None], caplog: pytest.LogCaptureFixture
) -> None:
    alone = sweep(small, objective=divergence(TEXTS))
    caplog.set_level(logging.INFO)
    encoder, received = explode_after(small, 5), []
    try:
        with pytest.raises(grpc.RpcError) as caught:
            received.extend(start(small))
    finally:
        del vars(encoder)["advance"]
    failure = Failure(caught.value)
    assert failure.code is grpc.StatusCode.INTERNAL
    assert failure.info.metadata["request_id"] in failure.message
    assert "inner" not in failure.message
    assert "the inner text of a bug" in caplog.text
    assert received
    check_prefix(received, alone)
    wait_until(lambda: in_flight(small) == 0 and waiting(small) == 0, "nothing is left of it")
    check_alive(small)
    np.testing.assert_allclose(sweep(small, objective=divergence(TEXTS)).numbers, alone.numbers, atol=1e-5)


@pytest.mark.slow
def test_a_client_that_vanishes_in_the_middle(small: Host, check_alive: Callable[[Host], None]) -> None:
    with held(small) as gate:
        channel = small.connect()
        calls = [type(small.ablation)(channel).SweepHeads(Request(mode=ZERO, objective=divergence(TEXTS))) for _ in range(5)]
        wait_until(lambda: gate.arrived and in_flight(small) == 5, "all are there")
        channel.close()
        wait_until(lambda: in_flight(small) == 0 and waiting(small) == 0, "they end")
    assert len(calls) == 5
    check_alive(small)
