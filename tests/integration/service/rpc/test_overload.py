"""More calls than a server can take: who is answered, who is refused, and what they hear. Every answer is checked."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import Any

import bertscope_service.api.read_ahead
import bertscope_service.api.tensor_streams
import bertscope_service.engine.runs
import grpc
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope_service.security import callers

from tests.support.harness import CALL_SECONDS, Failure, Host, held, read_maps, refused
from tests.support.patience import granted, wait_until
from tests.support.relay import relayed

pytestmark = pytest.mark.slow

TEXTS = ["The [MASK] sat.", "Paris is the capital of [MASK].", "A [MASK] and a cat ran to the old house near the river."]
TOKENS = 6
"""Of the first text: [CLS] the [MASK] sat . [SEP]"""
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def ask(text: int = 0) -> cloze.FillMaskRequest:
    return cloze.FillMaskRequest(texts=[TEXTS[text % len(TEXTS)]], top_k=3)


def answer(reply: cloze.FillMaskResponse) -> list[tuple[str, float]]:
    """The tokens of a reply, and their probabilities as far as the batch that a text shared leaves them alone."""
    return [(one.token, round(one.probability, 5)) for one in reply.results[0].masks[0].predictions]


def waiting(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


@pytest.fixture
def others(request: pytest.FixtureRequest) -> Callable[[Host], Any]:
    """Stubs on connections of their own: other clients."""

    def make(host: Host) -> Any:
        channel = host.connect()
        request.addfinalizer(channel.close)
        return type(host.cloze)(channel)

    return make


def test_a_light_client_is_answered_while_another_floods(launch: Callable[..., Host], others: Callable[[Host], Any]) -> None:
    host = launch(queue_tokens=60 * TOKENS, batch_tokens=64)
    true = [answer(host.cloze.FillMask(ask(text), timeout=CALL_SECONDS)) for text in range(len(TEXTS))]
    greedy, light = others(host), others(host)
    answered = turned_away = 0

    def turned() -> float:
        return host.metric("bertscope_rejected_total", reason="queue_full")

    for number in range(2):
        with held(host) as gate:
            running = host.cloze.FillMask.future(ask(), timeout=CALL_SECONDS)
            wait_until(lambda gate=gate: gate.arrived, "the worker is busy")
            flood = [(text, greedy.FillMask.future(ask(text), timeout=CALL_SECONDS)) for text in range(80)]
            wait_until(lambda already=turned_away: waiting(host) + turned() - already == 80, "all have come")
            late = light.FillMask.future(ask(number), timeout=CALL_SECONDS)
            gate.let_through()
            assert answer(late.result()) == true[number % len(TEXTS)]
            assert answer(running.result()) == true[0]
            for text, call in flood:
                if call.exception(timeout=CALL_SECONDS) is None:
                    assert answer(call.result()) == true[text % len(TEXTS)]
                    answered += 1
                else:
                    failure = Failure(call)
                    assert (failure.code, failure.info.reason) == (EXHAUSTED, "QUEUE_FULL")
                    assert failure.retry.retry_delay.ToMilliseconds() >= 50
                    turned_away += 1
    assert answered > 2 * 20
    assert turned_away == turned() > 2 * 20
    assert waiting(host) == 0


def test_connections_that_grow_old_lose_no_call(launch: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients connect again by themselves, with calls at work all the time."""
    host = launch(max_connection_age_seconds=0.4)
    peers: set[str] = set()

    def seen(peer: str, identity: callers.Identity) -> str:
        peers.add(peer)
        return identify(peer, identity)

    identify = callers.identify
    monkeypatch.setattr(callers, "identify", seen)
    true = [answer(host.cloze.FillMask(ask(text), timeout=CALL_SECONDS)) for text in range(len(TEXTS))]

    def call(number: int) -> None:
        assert answer(host.cloze.FillMask(ask(number), timeout=CALL_SECONDS)) == true[number % len(TEXTS)]

    with ThreadPoolExecutor(4) as pool:

        def calls() -> bool:
            list(pool.map(call, range(50)))
            return len(peers) >= 4

        wait_until(calls, "three connections grew old")


def slow_sweep(host: Host, texts: int = 4) -> Iterator[Any]:
    objective = ablation.Objective(masked_lm_loss=ablation.MaskedLmLoss(texts=["The cat sat on the mat."] * texts))
    request = ablation.SweepHeadsRequest(objective=objective, mode=common_pb2.HeadIntervention.MODE_ZERO)
    stream: Iterator[Any] = host.ablation.SweepHeads(request, timeout=granted(60))
    return stream


def settled(read: Callable[[], float], turn: Callable[[], None]) -> float:
    """A figure that stays the same while the server's loop and its worker get their turns."""
    for _ in range(50):
        before = read()
        for _ in range(20):
            turn()
        if read() == before:
            return before
    raise AssertionError("it never settled")


LONG_TEXT = common_pb2.TextInput(text="the cat sat on the mat and " * 7)


def test_readers_who_pause_hold_back_themselves_alone(
    host: Host, check_alive: Callable[[Host], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server writes ahead of them is bounded; others are answered; and they still get everything."""
    written = [0]
    render = bertscope_service.api.tensor_streams.render_chunks

    def counted(*arguments: Any) -> Iterator[Any]:
        for response in render(*arguments):
            written[0] += len(response)
            yield response

    inputs = [LONG_TEXT] * 120
    (alone,) = read_maps(host.attention.ExtractAttention(attention.ExtractAttentionRequest(inputs=inputs[:1])))
    monkeypatch.setattr(bertscope_service.api.tensor_streams, "render_chunks", counted)
    with host.connect() as channel:
        paused = type(host.attention)(channel).ExtractAttention(
            attention.ExtractAttentionRequest(inputs=inputs), timeout=granted(60)
        )
        first = next(paused)
        sweep = slow_sweep(host)
        begun = next(sweep)
        ahead = settled(lambda: written[0], lambda: check_alive(host))
        assert ahead < 4 * alone.values.nbytes + 4 * 1024 * 1024 < 120 * alone.values.nbytes / 2
        assert begun.WhichOneof("event") == "start"
        assert [event.WhichOneof("event") for event in sweep][-1] == "summary"
        found = read_maps([first, *paused])
    assert len(found) == 120
    assert all(abs(maps.values - alone.values).max() < 2e-5 for maps in islice(found, 0, None, 20))


def test_all_readers_who_pause_share_a_window(
    host: Host, check_alive: Callable[[Host], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are computed ahead of them until it is full, and it is empty again when they are gone."""
    (alone,) = read_maps(host.attention.ExtractAttention(attention.ExtractAttentionRequest(inputs=[LONG_TEXT])))
    monkeypatch.setattr(bertscope_service.api.read_ahead, "ALL_WINDOWS_BYTES", 10 * alone.values.nbytes)
    checks = [0]

    def check() -> None:
        check_alive(host)
        checks[0] += 1

    def computed() -> float:
        return host.metric("bertscope_batch_rows_sum", device="cpu") - checks[0]

    request = attention.ExtractAttentionRequest(inputs=[LONG_TEXT] * 120)
    for _ in range(2):
        before = computed()
        with ExitStack() as channels:
            stubs = [type(host.attention)(channels.enter_context(host.connect())) for _ in range(3)]
            streams = [stub.ExtractAttention(request, timeout=granted(60)) for stub in stubs]
            assert all(next(stream).HasField("header") for stream in streams)
            # Most of them are in the connections' buffers. Each of the three would be 120 ahead by itself.
            assert 3 < settled(computed, check) - before < 3 * 120 / 2
            for stream in streams:
                stream.cancel()
        wait_until(lambda: not host.metric("bertscope_requests_in_flight", method="ExtractAttention"), "all have ended")


def test_calls_of_a_client_that_fell_silent_end(launch: Callable[..., Host]) -> None:
    """Nothing was closed: it does not answer pings any more."""
    host = launch(keepalive_seconds=0.2, keepalive_timeout_seconds=1.0)
    with relayed(host.ports.grpc) as relay, grpc.insecure_channel(f"127.0.0.1:{relay.port}") as channel, held(host) as gate:
        stub = type(host.cloze)(channel)
        calls = [stub.FillMask.future(ask())]
        wait_until(lambda: gate.arrived, "one runs")
        calls.append(stub.FillMask.future(ask()))
        wait_until(lambda: waiting(host) == 1, "one waits")
        relay.silent = True
        wait_until(lambda: host.metric("bertscope_requests_total", method="FillMask", code="CANCELLED") == 2, "both have ended")
        assert waiting(host) == 0
        assert not any(call.done() for call in calls)
        gate.let_through()
        assert answer(host.cloze.FillMask(ask(), timeout=CALL_SECONDS))


def test_while_calls_are_refused_an_admitted_one_is_read_and_answered(launch: Callable[..., Host]) -> None:
    """Then the server reads requests only of calls that it admits: of any kind, empty ones, malformed ones, and none at all."""
    host = launch(max_calls=1)
    texts = [common_pb2.TextInput(text=text.replace("[MASK]", "dog")) for text in TEXTS]
    ask_maps = attention.ExtractAttentionRequest(inputs=texts)

    def refuse_one() -> None:
        with held(host) as gate:
            running = host.cloze.FillMask.future(ask(), timeout=CALL_SECONDS)
            wait_until(lambda: gate.arrived, "a call runs")
            with refused(EXHAUSTED) as failures:
                host.cloze.FillMask(ask(), timeout=CALL_SECONDS)
            assert failures[0].info.reason == "SERVER_LIMIT"
            gate.let_through()
            assert answer(running.result()) == true
        wait_until(lambda: not host.metric("bertscope_requests_in_flight", method="FillMask"), "it has ended")
        assert host.server._calls.load_shedder.refusing

    true = answer(host.cloze.FillMask(ask(), timeout=CALL_SECONDS))
    maps = list(host.attention.ExtractAttention(ask_maps, timeout=CALL_SECONDS))
    refuse_one()
    assert answer(host.cloze.FillMask(ask(), timeout=CALL_SECONDS)) == true
    assert not host.server._calls.load_shedder.refusing
    refuse_one()
    assert list(host.attention.ExtractAttention(ask_maps, timeout=CALL_SECONDS)) == maps
    refuse_one()
    assert host.names()
    refuse_one()
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        host.raw("ClozeService/FillMask", b"\xff")
    assert failures[0].info.reason == "MALFORMED_REQUEST"
    refuse_one()
    streaming: Any = host.channel.stream_unary("/bertscope.v1.ClozeService/FillMask")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        streaming(iter(()), timeout=CALL_SECONDS)
    assert failures[0].message == "the call holds no request; send one message"
    assert answer(host.cloze.FillMask(ask(), timeout=CALL_SECONDS)) == true


def test_refusals_are_retried_by_any_grpc_client(launch: Callable[..., Host]) -> None:
    """Whether their requests were read or not, a status comes alone: after an empty message no client would retry."""
    host = launch(max_calls=1)
    policy: dict[str, Any] = {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2}
    policy["retryableStatusCodes"] = ["RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"]
    config = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})
    with held(host) as gate, grpc.insecure_channel(host.target, [("grpc.service_config", config)]) as channel:
        stub = type(host.cloze)(channel)
        running = host.cloze.FillMask.future(ask(), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "a call runs")
        with refused(EXHAUSTED):
            stub.FillMask(ask(), timeout=CALL_SECONDS)
        assert host.metric("bertscope_rejected_total", reason="server_limit") == 3
        gate.let_through()
        assert running.result()
        wait_until(lambda: not host.metric("bertscope_requests_in_flight", method="FillMask"), "it has ended")
        for _ in range(2):  # the first one unread, for a call was refused before
            with refused(grpc.StatusCode.INVALID_ARGUMENT):
                stub.FillMask(cloze.FillMaskRequest(texts=["No mask."]), timeout=CALL_SECONDS)
    wait_until(
        lambda: host.metric("bertscope_requests_total", method="FillMask", code="INVALID_ARGUMENT") == 6, "each came thrice"
    )
