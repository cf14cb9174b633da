"""What a stranger may send that can't be read: a clear refusal, a figure, a line a second in the log, and never a trace."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import grpc
import pytest
from bertscope_service.contract import FILES, REFLECTION
from bertscope_service.observability import grpc_log
from bertscope_service.observability.logs import TextFormatter
from bertscope_service.rpc.malformed import PARTS
from google.protobuf.descriptor import ServiceDescriptor
from grpc_channelz.v1 import channelz_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.http2 import DATA, END_HEADERS, END_STREAM, HEADERS, Connection, literal, request, status
from tests.support.patience import wait_until

TRIES = 5
SERVICES: list[ServiceDescriptor] = [
    *(service for file in FILES for service in file.services_by_name.values()),
    health_pb2.DESCRIPTOR.services_by_name["Health"],
    channelz_pb2.DESCRIPTOR.services_by_name["Channelz"],
    reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"],
]
METHODS = [f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods]
METHODS.append(f"/{REFLECTION[-1]}/ServerReflectionInfo")


@pytest.fixture(scope="module")
def open_host(loop: LoopThread) -> Iterator[Host]:
    """A server with all services and no model."""
    with launched(loop, load=False, channelz=True) as running:
        yield running


def counts(host: Host) -> Mapping[str, float]:
    return {part: host.metric("bertscope_malformed_total", part=part) for part in PARTS}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log would have, of warnings and above. Other tests' servers may still tell of calls that they refused."""
    told = [TextFormatter().format(record) for record in caplog.records if record.levelno >= logging.WARNING]
    return [line for line in told if "calls refused within 1 s: " not in line]


def summed(caplog: pytest.LogCaptureFixture, part: str) -> int:
    """How many malformed parts of a kind the log tells of."""
    told = [line.partition("malformed within 1 s: ")[2] for line in lines(caplog)]
    counted = [entry.rsplit(" ", 1) for line in told if line for entry in line.split(", ")]
    return sum(int(number) for name, number in counted if name == part)


def check(host: Host, caplog: pytest.LogCaptureFixture, part: str, sends: Sequence[Callable[[], object]]) -> None:
    """Send malformed things: they are counted, told in few lines, and nothing else is said."""
    caplog.set_level(logging.INFO)
    # gRPC does not say which server of the process a path came to, so each of them tells of it.
    servers = len(grpc_log.log_filter.listeners) if part == "path" else 1
    before, tries = counts(host), len(sends)
    for send in sends:
        send()
    wait_until(lambda: counts(host)[part] == before[part] + tries, "all are counted")
    assert counts(host) == {**before, part: before[part] + tries}
    wait_until(lambda: summed(caplog, part) == tries * servers, "the log tells of all")
    assert all("malformed within 1 s: " in line and "\n" not in line for line in lines(caplog)), lines(caplog)
    assert len(lines(caplog)) < tries * servers


def send_raw(host: Host, path: str, *more: bytes, code: int) -> None:
    with Connection(host.target) as connection:
        connection.send(HEADERS, END_HEADERS, request(path, host.target) + b"".join(more))
        connection.send(DATA, END_STREAM, bytes(5))
        assert connection.receive_until(status(code))


def test_paths_that_are_no_utf_8(open_host: Host, caplog: pytest.LogCaptureFixture) -> None:
    paths = ["/\udcff", "/bertscope.v1.ClozeService/FillMask\udcff", "/\udcc3\udcff"] * TRIES
    check(open_host, caplog, "path", [partial(send_raw, open_host, path, code=2) for path in paths])


def test_metadata_that_are_no_ascii(open_host: Host, caplog: pytest.LogCaptureFixture) -> None:
    path = "/bertscope.v1.ModelService/ListModels"
    fields = [literal(name, "\udcffsecret") for name in ("x-anything", "authorization", "x-request-id", "traceparent")] * TRIES
    check(open_host, caplog, "metadata", [partial(send_raw, open_host, path, field, code=0) for field in fields])
    assert "secret" not in caplog.text


def test_requests_that_are_no_messages_of_their_methods(open_host: Host, caplog: pytest.LogCaptureFixture) -> None:
    def send(path: str, message: bytes) -> None:
        call: Any = open_host.channel.stream_stream(path)
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            list(call(iter([message]), timeout=CALL_SECONDS))
        assert failures[0].info.reason == "MALFORMED_REQUEST", path

    no_field, cut_short = b"\xff", b"\x0a\x05a"
    sends = [partial(send, path, message) for message in (no_field, cut_short) for path in METHODS]
    check(open_host, caplog, "request", sends)


def test_reflection_that_has_begun_ends_at_a_malformed_request(open_host: Host) -> None:
    good = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    call: Any = open_host.channel.stream_stream(METHODS[-1])
    stream = call(iter([good, b"\xff"]), timeout=CALL_SECONDS)
    assert b"bertscope.v1.ClozeService" in next(stream)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        next(stream)
    assert failures[0].info.reason == "MALFORMED_REQUEST"


def test_a_server_that_has_stopped_hears_no_more_of_it(loop: LoopThread, open_host: Host) -> None:
    with launched(loop, load=False) as other:
        pass
    before = counts(other)
    send_raw(open_host, "/\udcff", code=2)
    assert counts(other) == before


def test_a_bug_of_ours_keeps_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Only what has no step of ours in its trace is a stranger's doing."""
    try:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "here")
    except UnicodeDecodeError:
        logging.getLogger("grpc._cython.cygrpc").exception("Unexpected [UnicodeDecodeError] raised by servicer method [/a/b]")
    assert "Traceback" in caplog.text
