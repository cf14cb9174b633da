"""A model that fails while it runs fails the calls whose rows it can't run, and nobody else's."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import cloze_pb2_grpc
from bertscope.v1 import common_pb2 as common
from bertscope_service.encoders.sequences import TokenSequence
from numpy.testing import assert_allclose

from tests.support.harness import CALL_SECONDS, Failure, Host, held, read_maps, refused
from tests.support.patience import wait_until
from tests.support.sweeps import divergence

Fails = Callable[[Sequence[TokenSequence]], Exception | None]
GOOD = "Paris is the capital of [MASK]."
POISON = "Berlin is the capital of [MASK]."
LONG = "The children who had been waiting in the old house ran out into the garden near the [MASK]."


@dataclass
class Failing:
    """What a failing model was given to run, batch by batch: the number of rows, and whether it failed."""

    batches: list[tuple[int, bool]] = field(default_factory=list)


@contextmanager
def failing(host: Host, name: str, fails: Fails) -> Iterator[Failing]:
    """A model whose encoder raises what `fails` says of a batch."""
    loaded = host.server.registry.find(name).loaded
    assert loaded is not None
    encoder: Any = loaded.encoder
    found = Failing()

    def begin(sequences: Sequence[TokenSequence]) -> Any:
        error = fails(sequences)
        found.batches.append((len(sequences), error is not None))
        if error is not None:
            raise error
        return type(encoder).begin(encoder, sequences)

    vars(encoder)["begin"] = begin
    try:
        yield found
    finally:
        del vars(encoder)["begin"]


def poisoned(host: Host, name: str = "models/bert") -> Fails:
    """Raises for every batch with a row that has the word that only POISON has."""
    loaded = host.server.registry.find(name).loaded
    assert loaded is not None
    good, bad = (set(loaded.tokenizer.encode(text).sequence.ids) for text in (GOOD, POISON))
    assert bad - good

    def fails(sequences: Sequence[TokenSequence]) -> Exception | None:
        return RuntimeError("the inner text of a bug") if any((bad - good) & set(row.ids) for row in sequences) else None

    return fails


def too_large(rows: int, tokens: int = 1000) -> Fails:
    """Has no memory for a batch of more rows, or with a longer row."""

    def fails(sequences: Sequence[TokenSequence]) -> Exception | None:
        fits = len(sequences) <= rows and max(map(len, sequences)) <= tokens
        return None if fits else torch.OutOfMemoryError("CUDA out of memory")

    return fails


def request(*texts: str, model: str = "models/bert") -> cloze.FillMaskRequest:
    return cloze.FillMaskRequest(model=model, texts=texts, top_k=3)


def check(reply: cloze.FillMaskResponse, expected: cloze.FillMaskResponse) -> None:
    """Fail unless two answers are the same, but for rounding."""
    for found, true in zip(reply.results, expected.results, strict=True):
        pairs = list(zip(found.masks[0].predictions, true.masks[0].predictions, strict=True))
        assert [one.piece_ids for one, _ in pairs] == [other.piece_ids for _, other in pairs]
        assert_allclose([one.probability for one, _ in pairs], [other.probability for _, other in pairs], atol=1e-5)


@pytest.fixture
def ward(launch: Callable[..., Host], checkpoints: dict[str, Path]) -> Host:
    """Hosts models/bert, which will fail, and models/roberta, which will not."""
    return launch(model=[f"{name}={checkpoints[name]}" for name in ("bert", "roberta")])


def ask_at_once(host: Host, requests: Sequence[cloze.FillMaskRequest]) -> list[Any]:
    """Calls of as many clients whose rows have all waited for the same batch."""
    channels = [host.connect() for _ in requests]
    with held(host) as gate:
        first = host.cloze.FillMask.future(request(GOOD), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the worker is busy")
        calls = [
            cloze_pb2_grpc.ClozeServiceStub(channel).FillMask.future(asked, timeout=CALL_SECONDS)
            for channel, asked in zip(channels, requests, strict=True)
        ]
        rows = sum(len(asked.texts) for asked in requests)
        wait_until(lambda: host.metric("bertscope_queue_rows", device="cpu") == rows, "all rows wait")
        gate.let_through()
        assert first.result().results
        wait_until(lambda: all(call.done() for call in calls), "all calls have ended")
    for channel in channels:
        channel.close()
    return calls


def test_neighbours_of_a_row_that_fails_get_their_answers(ward: Host) -> None:
    expected = ward.cloze.FillMask(request(GOOD, GOOD), timeout=CALL_SECONDS)
    requests = [request(GOOD, GOOD), request(GOOD, POISON), request(GOOD, GOOD), request(POISON), request(GOOD, GOOD)]
    with failing(ward, "models/bert", poisoned(ward)) as found:
        calls = ask_at_once(ward, requests)
    assert max(rows for rows, failed in found.batches if failed) > 4, "they shared a batch"
    for asked, call in zip(requests, calls, strict=True):
        if POISON in asked.texts:
            with refused(grpc.StatusCode.INTERNAL) as failures:
                call.result()
            assert failures[0].info.metadata["request_id"] in failures[0].message
            assert "inner" not in failures[0].message
        else:
            check(call.result(), expected)


def test_streams_with_a_row_that_fails_end_with_an_error_and_others_do_not(ward: Host) -> None:
    good, bad = ([common.TextInput(text=text) for text in texts] for texts in ((GOOD, LONG), (LONG, POISON)))
    (expected, *_) = read_maps(ward.attention.ExtractAttention(attention.ExtractAttentionRequest(inputs=good)))
    with failing(ward, "models/bert", poisoned(ward)):
        with refused(grpc.StatusCode.INTERNAL):
            list(ward.attention.ExtractAttention(attention.ExtractAttentionRequest(inputs=bad), timeout=CALL_SECONDS))
        sweep = ablation.SweepHeadsRequest(objective=divergence([GOOD, POISON]), mode=common.HeadIntervention.MODE_ZERO)
        with refused(grpc.StatusCode.INTERNAL):
            list(ward.ablation.SweepHeads(sweep, timeout=CALL_SECONDS))
        request = attention.ExtractAttentionRequest(inputs=good)
        found = read_maps(ward.attention.ExtractAttention(request, timeout=CALL_SECONDS))
        assert_allclose(found[0].values, expected.values, atol=2e-5)
    assert ward.metric("bertscope_queue_rows", device="cpu") == 0


def test_a_row_that_memory_does_not_hold_is_refused_and_its_neighbours_are_not(ward: Host) -> None:
    expected = ward.cloze.FillMask(request(GOOD), timeout=CALL_SECONDS)
    requests = [request(GOOD), request(LONG), request(GOOD), request(GOOD, LONG), request(GOOD)]
    with failing(ward, "models/bert", too_large(rows=1000, tokens=15)):
        calls = ask_at_once(ward, requests)
    for asked, call in zip(requests, calls, strict=True):
        if LONG in asked.texts:
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
                call.result()
            assert failures[0].info.reason == "DEVICE_MEMORY"
            assert failures[0].retry.retry_delay.seconds > 0
        else:
            check(call.result(), expected)


def test_a_model_that_always_fails_does_not_disturb_another_and_serves_again_when_it_can(ward: Host) -> None:
    other = request(GOOD.replace("[MASK]", "<mask>"), model="models/roberta")
    expected, healthy = ward.cloze.FillMask(request(GOOD), timeout=CALL_SECONDS), ward.cloze.FillMask(other)
    codes: list[grpc.StatusCode] = []
    stop = threading.Event()

    def insist() -> None:
        with ward.connect() as channel:
            while not stop.is_set():
                try:
                    cloze_pb2_grpc.ClozeServiceStub(channel).FillMask(request(GOOD, GOOD), timeout=CALL_SECONDS)
                except grpc.RpcError as error:
                    codes.append(Failure(error).code)

    for fails, code in (
        (lambda _: RuntimeError("a bug"), grpc.StatusCode.INTERNAL),
        (too_large(rows=0), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ):
        codes.clear()
        stop.clear()
        with failing(ward, "models/bert", fails):
            thread = threading.Thread(target=insist)
            thread.start()
            try:
                wait_until(lambda: codes, "the model fails")
                for _ in range(20):
                    check(ward.cloze.FillMask(other, timeout=CALL_SECONDS), healthy)
            finally:
                stop.set()
                thread.join(CALL_SECONDS)
        assert set(codes) == {code}
        check(ward.cloze.FillMask(request(GOOD), timeout=CALL_SECONDS), expected)
