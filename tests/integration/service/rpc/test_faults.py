"""What goes wrong in one call stays in that call."""

import logging
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2

from tests.support.harness import CALL_SECONDS, Failure, Host, held, read_maps, refused
from tests.support.patience import wait_until

GOOD = "The [MASK] sat."
TOKENS = 6
"""[CLS] the [MASK] sat . [SEP]"""


def ask(texts: int = 1, **fields: Any) -> cloze.FillMaskRequest:
    return cloze.FillMaskRequest(texts=[GOOD] * texts, **fields)


def maps_of(texts: int, **fields: Any) -> attention.ExtractAttentionRequest:
    inputs = [common_pb2.TextInput(text="the cat sat on the mat and " * 7) for _ in range(texts)]
    return attention.ExtractAttentionRequest(inputs=inputs, **fields)


def waiting(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


def test_a_full_queue_turns_calls_away_with_a_delay_and_answers_the_others(
    launch: Callable[..., Host], check_alive: Callable[[Host], None]
) -> None:
    host = launch(queue_tokens=4 * TOKENS)
    with held(host) as gate:
        running = host.cloze.FillMask.future(ask(), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the worker is busy")
        queued = [host.cloze.FillMask.future(ask(2, top_k=k), timeout=CALL_SECONDS) for k in (1, 2)]
        wait_until(lambda: waiting(host) == 4, "the queue is full")
        for _ in range(3):
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
                host.cloze.FillMask(ask(), timeout=CALL_SECONDS)
            delay = failures[0].retry.retry_delay.ToTimedelta().total_seconds()
            assert 0.05 <= delay <= 30
            assert failures[0].info.reason == "QUEUE_FULL"
            assert f"{4 * TOKENS} tokens wait" in failures[0].message
            assert "try again" in failures[0].message
        assert host.metric("bertscope_rejected_total", reason="queue_full") == 3
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            list(host.attention.ExtractAttention(maps_of(3), timeout=CALL_SECONDS))
        gate.let_through()
        assert len(running.result().results) == 1
        for k, call in enumerate(queued, start=1):
            assert [len(result.masks[0].predictions) for result in call.result().results] == [k, k]
    check_alive(host)


def test_a_request_larger_than_the_queue_is_answered_when_nothing_waits(launch: Callable[..., Host]) -> None:
    host = launch(queue_tokens=10)
    assert len(host.cloze.FillMask(ask(50), timeout=CALL_SECONDS).results) == 50
    assert len(read_maps(host.attention.ExtractAttention(maps_of(9), timeout=CALL_SECONDS))) == 9


def test_an_exception_in_an_encoder_is_internal_with_an_id_and_without_its_text(
    host: Host, check_alive: Callable[[Host], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loaded = host.server.registry.find("models/bert").loaded
    assert loaded is not None

    def explode(*_: Any, **__: Any) -> None:
        raise RuntimeError("the inner text of a bug")

    vars(loaded.encoder)["advance"] = explode
    try:
        for ask_it in (
            lambda: host.cloze.FillMask(ask(), timeout=CALL_SECONDS, metadata=(("x-request-id", "id-of-the-caller"),)),
            lambda: list(host.attention.ExtractAttention(maps_of(3), timeout=CALL_SECONDS)),
        ):
            with refused(grpc.StatusCode.INTERNAL) as failures:
                ask_it()
            request_id = failures[0].info.metadata["request_id"]
            assert request_id in failures[0].message
            assert "inner" not in failures[0].message
            traces = [
                record for record in caplog.records if getattr(record, "request_id", "") == request_id and record.exc_info
            ]
            assert len(traces) == 1
            assert "the inner text of a bug" in caplog.text
    finally:
        del vars(loaded.encoder)["advance"]
    assert "id-of-the-caller" in {getattr(record, "request_id", "") for record in caplog.records if record.exc_info}
    check_alive(host)
    assert len(read_maps(host.attention.ExtractAttention(maps_of(2), timeout=CALL_SECONDS))) == 2


def test_a_failure_in_the_middle_of_a_stream_is_a_status(host: Host, check_alive: Callable[[Host], None]) -> None:
    loaded = host.server.registry.find("models/bert").loaded
    assert loaded is not None
    encoder: Any = loaded.encoder
    seen: list[int] = []

    def advance(*args: Any, **options: Any) -> None:
        seen.append(1)
        if len(seen) > 2:
            raise RuntimeError("a bug in the third text")
        type(encoder).advance(encoder, *args, **options)

    # Texts of one length would share a batch.
    texts = ["the cat " * (1 + 12 * number) for number in range(3)]
    request = attention.ExtractAttentionRequest(inputs=[common_pb2.TextInput(text=text) for text in texts])
    vars(encoder)["advance"] = advance
    received: list[attention.ExtractAttentionResponse] = []
    try:
        received.extend(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))
    except grpc.RpcError as error:
        assert Failure(error).code is grpc.StatusCode.INTERNAL
    else:
        pytest.fail("the stream ended well")
    finally:
        del vars(encoder)["advance"]
    assert [maps.header.input_index for maps in read_maps(received)] == [0, 1]
    check_alive(host)
