"""What goes wrong in a sweep stays in that sweep, and a sweep is not felt by others."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.api import ablation as servicer
from bertscope_service.api import answer
from safetensors.torch import load_file, save_file

from tests.support.harness import (
    CALL_SECONDS,
    Failure,
    Held,
    Host,
    LoopThread,
    held,
    interactive_rows_wait,
    launched,
    refused,
)
from tests.support.patience import granted, wait_until
from tests.support.sweeps import (
    MEAN,
    ZERO,
    Heads,
    Request,
    Sweep,
    cloze_prompts,
    divergence,
    head_set,
    heads_of,
    labelled,
    masked_lm,
    minimal_pairs,
    rank,
    sweep,
    text_input,
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


def state_of(host: Host, name: str) -> int:
    return host.models.GetModel(model.GetModelRequest(name=name), timeout=CALL_SECONDS).model.state


def names(host: Host) -> list[str]:
    return [entry.name for entry in host.models.ListModels(model.ListModelsRequest()).models]


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


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_sweep_left_at_any_point_leaves_nothing(small: Host, check_alive: Callable[[Host], None], after: int) -> None:
    with small.connect() as channel:
        call = type(small.ablation)(channel).SweepHeads(Request(mode=ZERO, objective=divergence(TEXTS), sets=many_sets(500)))
        for _ in range(after):
            next(call)
        call.cancel()
    wait_until(lambda: in_flight(small) == 0 and waiting(small) == 0, "the call ends")
    check_alive(small)
    done = rows(small)
    check_alive(small)
    assert rows(small) == done + 1
    small.models.UnloadModel(model.UnloadModelRequest(name="models/a"), timeout=CALL_SECONDS)


@pytest.mark.parametrize("fields", [{"greedy": ablation.Greedy()}, {"mode": MEAN, "reference_texts": TEXTS * 9}])
def test_a_curve_and_means_are_left_too(small: Host, check_alive: Callable[[Host], None], fields: dict[str, Any]) -> None:
    with held(small) as gate:
        call = start(small, **fields)
        wait_until(lambda: gate.arrived and waiting(small), "its rows wait")
        call.cancel()
        wait_until(lambda: waiting(small) == 0 and in_flight(small) == 0, "its rows are dropped")
    check_alive(small)


def test_a_ranking_is_left_too(small: Host, check_alive: Callable[[Host], None]) -> None:
    with held(small) as gate:
        request = ablation.RankHeadsRequest(objective=masked_lm([text.replace("[MASK]", "end") for text in TEXTS] * 9))
        call = small.ablation.RankHeads.future(request)
        wait_until(lambda: gate.arrived and waiting(small), "its rows wait")
        call.cancel()
        wait_until(lambda: waiting(small) == 0 and in_flight(small, "RankHeads") == 0, "its rows are dropped")
    check_alive(small)


def test_a_deadline_in_the_middle_of_a_sweep(small: Host, check_alive: Callable[[Host], None]) -> None:
    alone = sweep(small, objective=divergence(TEXTS))
    before = dropped(small, "deadline") + dropped(small, "cancelled")
    with held(small) as gate:
        call = start(small, timeout=1.5)
        gate.let_through(12)
        received = []
        with pytest.raises(grpc.RpcError) as caught:
            received.extend(call)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: waiting(small) == 0 and in_flight(small) == 0, "its rows are dropped")
    assert dropped(small, "deadline") + dropped(small, "cancelled") > before
    check_prefix(received, alone)
    check_alive(small)


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
def test_a_full_queue_refuses_a_new_sweep_at_once_and_the_one_that_was_let_in_goes_on(launch: Callable[..., Host]) -> None:
    host = launch(batch_tokens=12, queue_tokens=4 * TOKENS)
    usual = sweep(host, objective=divergence(["The [MASK] sat.", "A [MASK] ran."]))
    with held(host) as gate:
        call = start(host, objective=divergence(["The [MASK] sat.", "A [MASK] ran."]))
        wait_until(lambda: gate.arrived == 1, "the sweep runs")
        others = [host.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS) for _ in range(4)]
        wait_until(lambda: waiting(host) == 4, "the queue is full")
        for ask in (
            lambda: sweep(host, objective=divergence()),
            lambda: sweep(host, objective=divergence(), mode=MEAN, reference_texts=["The cat sat."]),
            lambda: sweep(host, objective=divergence(), greedy=ablation.Greedy()),
            lambda: rank(host, objective=masked_lm(["The cat sat."])),
        ):
            with refused(EXHAUSTED) as failures:
                ask()
            assert failures[0].info.reason == "QUEUE_FULL"
            assert 0.05 <= failures[0].retry.retry_delay.ToTimedelta().total_seconds() <= 30
        assert host.metric("bertscope_rejected_total", reason="queue_full") == 4
        gate.let_through()
        found = Sweep(list(call))
        assert all(other.result().results for other in others)
    np.testing.assert_allclose(found.numbers, usual.numbers, atol=1e-5)
    assert len(sweep(host, objective=divergence(TEXTS * 2)).effects) == 16


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
def test_two_clients_that_sweep_share_the_worker(small: Host) -> None:
    """Neither waits for the other's end."""
    sets = many_sets(400)
    with small.connect() as other:
        mine = start(small, sets=sets)
        next(mine)
        theirs = type(small.ablation)(other).SweepHeads(
            Request(mode=ZERO, objective=divergence(TEXTS), sets=sets[:3]), timeout=CALL_SECONDS
        )
        assert len(Sweep(list(theirs)).effects) == 3
        assert in_flight(small) == 1
        assert len(list(mine)) == 401


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


def test_unloading_waits_for_a_sweep(small: Host) -> None:
    alone = sweep(small, model="models/a", objective=divergence(TEXTS))
    with held(small, "models/a") as gate:
        call = start(small, model="models/a")
        wait_until(lambda: gate.arrived, "it runs")
        unloading = small.models.UnloadModel.future(model.UnloadModelRequest(name="models/a"), timeout=CALL_SECONDS)
        wait_until(lambda: state_of(small, "models/a") == model.Model.STATE_UNLOADING, "the model is being unloaded")
        for ask in (sweep, rank):
            with refused(grpc.StatusCode.NOT_FOUND):
                ask(small, model="models/a", objective=masked_lm(["The cat sat."]))
        gate.let_through()
        np.testing.assert_allclose(Sweep(list(call)).numbers, alone.numbers, atol=1e-5)
        unloading.result()
    assert names(small) == ["models/b"]


# Stopping


def test_a_stop_lets_a_sweep_finish_within_its_grace(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch(batch_tokens=64)
    alone = sweep(host, objective=divergence(TEXTS))
    with held(host) as gate:
        call = start(host)
        wait_until(lambda: gate.arrived, "it runs")
        stopping = asyncio.run_coroutine_threadsafe(host.server.stop(30), loop.loop)
        wait_until(lambda: host.server._calls.draining, "it drains")
        with refused(grpc.StatusCode.UNAVAILABLE) as failures:
            sweep(host, objective=divergence(TEXTS))
        assert failures[0].info.reason == "DRAINING"
        assert not stopping.done()
        gate.let_through()
        np.testing.assert_allclose(Sweep(list(call)).numbers, alone.numbers, atol=1e-5)
        stopping.result(CALL_SECONDS)


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


@pytest.mark.parametrize("batches", [0, 5])
def test_a_bug_in_a_batch_is_internal_with_an_id_and_the_server_goes_on(
    small: Host, check_alive: Callable[[Host], None], caplog: pytest.LogCaptureFixture, batches: int
) -> None:
    alone = sweep(small, objective=divergence(TEXTS))
    caplog.set_level(logging.INFO)
    encoder, received = explode_after(small, batches), []
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
    assert bool(received) == bool(batches)
    check_prefix(received, alone)
    wait_until(lambda: in_flight(small) == 0 and waiting(small) == 0, "nothing is left of it")
    check_alive(small)
    np.testing.assert_allclose(sweep(small, objective=divergence(TEXTS)).numbers, alone.numbers, atol=1e-5)


def test_a_bug_while_ranking(small: Host, check_alive: Callable[[Host], None]) -> None:
    encoder = explode_after(small, 0)
    try:
        with refused(grpc.StatusCode.INTERNAL):
            rank(small, objective=masked_lm(["The cat sat."] * 50))
    finally:
        del vars(encoder)["advance"]
    check_alive(small)


def test_a_batch_that_does_not_fit_into_memory_is_halved(small: Host) -> None:
    objective = divergence(TEXTS)
    alone = sweep(small, objective=objective)
    loaded = small.server.registry.find("").loaded
    assert loaded is not None
    encoder: Any = loaded.encoder

    def advance(state: Any, *args: Any, **options: Any) -> None:
        if len(state.lengths) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        type(encoder).advance(encoder, state, *args, **options)

    vars(encoder)["advance"] = advance
    try:
        np.testing.assert_allclose(sweep(small, objective=objective).numbers, alone.numbers, atol=1e-5)
    finally:
        del vars(encoder)["advance"]


@pytest.fixture(scope="module")
def broken(checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints whose weights are finite, so that they can be loaded, and whose hidden states overflow."""
    root = tmp_path_factory.mktemp("broken")
    folders = {}
    for name, folder in (("bert", checkpoints["bert"]), ("sorter", sorters["sorter"])):
        folders[name] = Path(shutil.copytree(folder, root / name))
        path = folders[name] / "model.safetensors"
        weights = load_file(path)
        for key, values in weights.items():
            if "layer.2.attention.output.LayerNorm.weight" in key:
                values.fill_(torch.finfo(values.dtype).max)
        save_file(weights, path, {"format": "pt"})
    return folders


@pytest.fixture(scope="module")
def sick(loop: LoopThread, broken: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in broken.items()]) as running:
        yield running


SICK: dict[str, Callable[[Host], Any]] = {
    "masked-lm": lambda host: sweep(host, objective=masked_lm(["The cat sat."])),
    "cloze": lambda host: sweep(host, objective=cloze_prompts()),
    "minimal pairs": lambda host: sweep(host, objective=minimal_pairs()),
    "divergence": lambda host: sweep(host, objective=divergence()),
    "labelled": lambda host: sweep(host, model="models/sorter", objective=labelled()),
    "divergence of labels": lambda host: sweep(host, model="models/sorter", objective=divergence()),
    "curve": lambda host: sweep(host, objective=divergence(), greedy=ablation.Greedy()),
    "means": lambda host: sweep(host, objective=divergence(), mode=MEAN, reference_texts=["The cat sat."]),
    "rank": lambda host: rank(host, objective=masked_lm(["The cat sat."])),
    "rank labels": lambda host: rank(host, model="models/sorter", objective=labelled()),
    "classify": lambda host: host.classification.Classify(
        classification.ClassifyRequest(model="models/sorter", inputs=[text_input("The cat sat.")]), timeout=CALL_SECONDS
    ),
}


@pytest.mark.parametrize("ask", SICK.values(), ids=SICK)
def test_weights_that_are_no_numbers(sick: Host, ask: Callable[[Host], Any]) -> None:
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
        ask(sick)
    assert failures[0].info.reason == "SCORES_NOT_FINITE"
    wait_until(lambda: waiting(sick) == 0 and in_flight(sick) == 0, "nothing is left of it")


def test_the_layer_that_is_broken_can_not_be_swept_around(sick: Host) -> None:
    """Zero times what is no number is none either: no effect is ever sent for such a model."""
    received = []
    with pytest.raises(grpc.RpcError):
        received.extend(start(sick, sets=[head_set(((layer, ()),)) for layer in range(4)]))
    assert not any(response.HasField("effect") for response in received)


def test_a_client_that_vanishes_in_the_middle(small: Host, check_alive: Callable[[Host], None]) -> None:
    with held(small) as gate:
        channel = small.connect()
        calls = [type(small.ablation)(channel).SweepHeads(Request(mode=ZERO, objective=divergence(TEXTS))) for _ in range(5)]
        wait_until(lambda: gate.arrived and in_flight(small) == 5, "all are there")
        channel.close()
        wait_until(lambda: in_flight(small) == 0 and waiting(small) == 0, "they end")
    assert len(calls) == 5
    check_alive(small)


def test_no_tasks_are_left_behind(small: Host, loop: LoopThread) -> None:
    """A sweep that was left leaves no task on the loop."""

    async def count() -> int:
        return len(asyncio.all_tasks())

    sweep(small, objective=divergence(TEXTS))
    before = loop.run(count())
    for _ in range(10):
        call = start(small)
        next(call)
        call.cancel()
    wait_until(lambda: in_flight(small) == 0, "the calls end")
    wait_until(lambda: loop.run(count()) <= before, "their tasks end")


def one_set(heads: Heads) -> list[ablation.HeadSet]:
    return [head_set(heads)]


def test_an_intervention_that_overflows_is_told(small: Host) -> None:
    """Scaled a thousand times in every layer, or not: scores or a refusal, never a number that is none."""
    huge = [common.HeadIntervention(layer=layer, mode=common.HeadIntervention.MODE_SCALE, scale=1000) for layer in range(4)]
    try:
        found = sweep(small, objective=divergence(TEXTS), interventions=huge, sets=one_set(((0, (0,)),)))
    except grpc.RpcError as error:
        assert Failure(error).info.reason == "SCORES_NOT_FINITE"
    else:
        assert np.isfinite(found.numbers).all()
