"""Callers that go, at any moment, and calls whose client has ended: nothing of them stays."""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import CancelledError
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import pytest
from bertscope.v1 import attention_pb2, cloze_pb2, common_pb2
from bertscope_service.errors import Unavailable
from bertscope_service.observability.grpc_log import BATCH_FAILED, CYGRPC, log_filter
from bertscope_service.rpc.malformed import PARTS
from grpc._cython import cygrpc
from grpc_health.v1 import health_pb2

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched
from tests.support.http2 import DATA, END_HEADERS, END_STREAM, HEADERS, Connection, frame, request
from tests.support.patience import granted, wait_until

RST_STREAM, CANCEL = 0x3, (8).to_bytes(4, "big")
LIST_MODELS, UNKNOWN, NO_UTF_8 = "/bertscope.v1.ModelService/ListModels", "/no.Such/Method", "/\udcff"
TEXT = "the cat [MASK] on the mat ."
UNARY = {
    "/bertscope.v1.ClozeService/FillMask": cloze_pb2.FillMaskRequest(texts=[TEXT]),
    "/grpc.health.v1.Health/Check": health_pb2.HealthCheckRequest(),
    LIST_MODELS: cloze_pb2.FillMaskRequest(),
    UNKNOWN: cloze_pb2.FillMaskRequest(),
}
STREAMS = {
    "/bertscope.v1.AttentionService/ExtractAttention": attention_pb2.ExtractAttentionRequest(
        inputs=[common_pb2.TextInput(text=TEXT)] * 8
    ),
    "/grpc.health.v1.Health/Watch": health_pb2.HealthCheckRequest(),
}
DEADLINES = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.02, CALL_SECONDS)
CONNECTIONS, CALLS, UNDER_WAY = 10, 200, 40


def malformed(host: Host) -> Mapping[str, float]:
    return {part: host.metric("bertscope_malformed_total", part=part) for part in PARTS}


def check_quiet(host: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing was said but how many calls were refused, and how many malformed."""
    call: Any = host.channel.unary_unary(LIST_MODELS)
    for _ in range(2):  # by the second, the server has done all that it had to do when the first one came
        call(b"", timeout=CALL_SECONDS)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert all(line.startswith(("calls refused within", "malformed within")) for line in told), caplog.text
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("path", [LIST_MODELS, NO_UTF_8])
def test_calls_that_are_cancelled_as_they_come(
    host: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    before, tries = malformed(host), 50
    for _ in range(tries):
        with Connection(host.target) as connection:
            head = frame(HEADERS, END_HEADERS, request(path, host.target)) + frame(DATA, END_STREAM, bytes(5))
            connection.send_frames(head + frame(RST_STREAM, 0, CANCEL))
    # gRPC's core drops a call that is reset before its headers reach the server's queue (server.cc, PublishNewRpc): not all of
    # them need be seen.
    wait_until(lambda: path != NO_UTF_8 or malformed(host)["path"] > before["path"], "a path is counted")
    check_quiet(host, caplog, capfd)
    found = malformed(host)
    assert found | {"path": 0} == before | {"path": 0}
    assert before["path"] <= found["path"] <= before["path"] + (tries if path == NO_UTF_8 else 0)


def test_a_caller_that_goes_while_the_server_refuses_others_is_no_error(host: Host) -> None:
    """Then gRPC reads the request late, and its error would come up in our code, where gRPC logs a trace."""

    async def requests() -> AsyncIterator[bytes]:
        yield b""

    gone = cygrpc.ExecuteBatchError(f"{BATCH_FAILED}: (SendInitialMetadataOperation, SendMessageOperation)")
    known = {
        "peer.return_value": "ipv4:127.0.0.1:1",
        "invocation_metadata.return_value": (),
        "time_remaining.return_value": None,
    }
    context = Mock(write=AsyncMock(side_effect=gone), **known)
    host.names()  # makes the handlers
    handler = host.server._interceptor._wrapped[LIST_MODELS].unread.stream_stream
    with pytest.raises(CancelledError):
        host.loop.run(handler(requests(), context))


@pytest.mark.slow
def test_calls_that_end_at_any_moment(host: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Under load: some are cancelled, some have a few milliseconds, some lose their connection, streams after some messages."""
    before, chance, under_way = malformed(host), random.Random(0), deque[Any]()
    for _ in range(CONNECTIONS):
        with host.connect() as channel:
            for number in range(CALLS):
                streamed = number % 3 == 0
                path, message = chance.choice(list((STREAMS if streamed else UNARY).items()))
                make: Any = channel.unary_stream(path) if streamed else channel.unary_unary(path).future
                under_way.append(make(message.SerializeToString(), timeout=chance.choice(DEADLINES)))
                if streamed and chance.random() < 0.5:
                    with contextlib.suppress(grpc.RpcError):
                        next(under_way[-1])
                if len(under_way) > UNDER_WAY:
                    under_way.rotate(chance.randrange(UNDER_WAY))
                    under_way.popleft().cancel()
        under_way.clear()
    check_quiet(host, caplog, capfd)
    assert malformed(host) == before


def failing(message: str) -> logging.LogRecord:
    """What gRPC logs of an error that came up in its own code."""
    return logging.LogRecord(CYGRPC, logging.ERROR, "", 0, "raised", (), (Exception, cygrpc.ExecuteBatchError(message), None))


def test_only_batches_that_fail_because_the_call_has_ended_are_dropped() -> None:
    """A batch that gRPC refuses to begin is a bug, and so is any other error."""
    assert not log_filter.filter(failing(f"{BATCH_FAILED}: (SendMessageOperation,)"))
    assert log_filter.filter(failing("Failed grpc_call_start_batch: 8 with grpc_call_error value: 'TOO_MANY_OPERATIONS'"))
    for error in (cygrpc.InternalError("Error in grpc_server_request_call: 8"), cygrpc.UsageError("RPC already finished.")):
        assert log_filter.filter(logging.LogRecord(CYGRPC, logging.ERROR, "", 0, "raised", (), (type(error), error, None)))


def test_who_runs_a_server_hears_that_grpc_has_ended(loop: LoopThread) -> None:
    with launched(loop, load=False) as host:
        waiting = asyncio.run_coroutine_threadsafe(host.server.serve_on(), loop.loop)
        loop.run(host.server._server.stop(0))
        with pytest.raises(Unavailable, match="by itself"):
            waiting.result(granted(20))
