"""Requests and headers without end: refused with the right status, not kept in memory, and the server goes on."""

import re
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from bertscope.v1 import cloze_pb2, cloze_pb2_grpc

from tests.support.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MAX_FRAME,
    PRIORITY,
    Connection,
    frame,
    literal,
    request,
    status,
)
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
GOOD = cloze_pb2.FillMaskRequest(texts=["Paris is the capital of [MASK]."])
METHOD = "/bertscope.v1.ClozeService/FillMask"
CALL_SECONDS = granted(60.0)
FLOOD = literal("x-flood", "x" * 100) * (MAX_FRAME // 110 - 1)
"""As many header fields as fit into a frame."""

Code = grpc.StatusCode


@pytest.fixture
def resident(embedded: Process) -> Callable[[], int]:
    """Memory of the server now, bytes; warm, so that what a first call takes does not count."""
    embedded.cloze.FillMask(GOOD, timeout=CALL_SECONDS)
    path = Path(f"/proc/{embedded.popen.pid}/status")
    if not path.exists():
        pytest.skip("this system does not say how much memory a process has")

    def read() -> int:
        line = next(line for line in path.read_text().splitlines() if line.startswith("VmRSS:"))
        return 1024 * int(line.split()[1])

    return read


def answers(server: Process) -> bool:
    return bool(server.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results)


def refused(server: Process, asked: cloze_pb2.FillMaskRequest = GOOD, **call: object) -> str:
    """What a server says of a call that is too large for it, after which it answers others."""
    with pytest.raises(grpc.RpcError) as caught:
        server.cloze.FillMask(asked, timeout=CALL_SECONDS, **call)
    assert caught.value.code() is Code.RESOURCE_EXHAUSTED
    assert answers(server)
    return str(caught.value.details())


def test_a_request_of_a_gigabyte_is_refused_when_it_says_so(embedded: Process, resident: Callable[[], int]) -> None:
    before = resident()
    with Connection(embedded.target) as connection:
        connection.send(HEADERS, END_HEADERS, request(METHOD, embedded.target))
        length = (1024 * MIB).to_bytes(4, "big")
        connection.send(DATA, 0, b"\0" + length + bytes(MAX_FRAME - 5))
        assert connection.receive_until(status(8))
        assert answers(embedded)
    assert resident() - before < 32 * MIB


def test_a_request_that_swells_when_it_is_decompressed_is_refused(embedded: Process, resident: Callable[[], int]) -> None:
    before = resident()
    bomb = cloze_pb2.FillMaskRequest(texts=["x" * (64 * MIB)])
    refused(embedded, bomb, compression=grpc.Compression.Gzip)
    assert resident() - before < 48 * MIB


@pytest.mark.parametrize(
    "metadata",
    [(("x-flood", "x" * 20_000),), tuple((f"x-{number}", "x") for number in range(1000)), (("x-flood-bin", bytes(20_000)),)],
    ids=["one large value", "many small ones", "binary"],
)
def test_too_much_metadata_is_refused_and_not_repeated(
    embedded: Process, metadata: tuple[tuple[str, str | bytes], ...]
) -> None:
    assert "xxx" not in refused(embedded, metadata=metadata)


def test_headers_without_end_are_not_kept(embedded: Process, resident: Callable[[], int]) -> None:
    """CONTINUATION frames, one after the other, that never end a call's headers."""
    before, sent = resident(), 0
    with Connection(embedded.target) as connection:
        connection.send(HEADERS, 0, request(METHOD, embedded.target))
        while sent < 1024 * MIB:
            connection.send(CONTINUATION, 0, FLOOD)
            sent += len(FLOOD)
        assert answers(embedded)
        # gRPC's buffers grow to some 100 to 200 MiB, however much is sent; on a busy machine to more, until it has read them.
        wait_until(lambda: resident() - before < 512 * MIB, "what was sent is not kept")
        connection.send(CONTINUATION, END_HEADERS, b"")
        assert connection.receive_until(status(8))
    assert answers(embedded)


def test_a_path_that_is_no_text_ends_one_call_and_not_the_server(embedded: Process) -> None:
    before = len(embedded.text)
    for _ in range(3):
        with Connection(embedded.target) as connection:
            connection.send(HEADERS, END_HEADERS | END_STREAM, request("/\udcff", embedded.target))
            assert connection.receive_until(status(2))
    wait_until(lambda: "malformed within 1 s: path " in embedded.text[before:], "the log tells of it")
    assert "Traceback" not in embedded.text[before:]
    assert answers(embedded)


@pytest.mark.parametrize("field", [("grpc-timeout", "soon"), ("grpc-encoding", "x"), ("te", "x"), ("x-bin", "!")], ids=str)
def test_malformed_headers_write_nothing_into_the_log(embedded: Process, field: tuple[str, str]) -> None:
    assert answers(embedded)
    told = re.compile(r"hpack|grpc-timeout|\bmetadata\b")
    before = len(told.findall(embedded.text))
    for _ in range(3):
        with Connection(embedded.target) as connection:
            connection.send(HEADERS, END_HEADERS | END_STREAM, request(METHOD, embedded.target) + literal(*field))
            assert connection.receive_until(b"grpc-status")
    assert answers(embedded)
    assert len(told.findall(embedded.text)) == before


def sent_until_closed(target: str, first: bytes, flood: bytes, limit: int) -> int:
    """How many bytes of a flood a server takes before it closes the connection, at most `limit`."""
    sent = 0
    with Connection(target) as connection:
        connection.send_frames(first)
        try:
            while sent < limit:
                connection.send_frames(flood)
                sent += len(flood)
        except OSError:
            return sent
        return limit


@pytest.mark.parametrize("kind", ["continuation", "priority"])
def test_envoy_ends_floods_before_they_reach_the_server(
    embedded: Process, gateway: str, resident: Callable[[], int], kind: str
) -> None:
    """The server behind it hears nothing of them; without it, gRPC would read on for as long as somebody sends."""
    first, flood = b"", b"".join(frame(PRIORITY, 0, bytes(4) + b"\x10", stream=2 * number + 3) for number in range(10_000))
    if kind == "continuation":
        first, flood = frame(HEADERS, 0, request(METHOD, gateway)), frame(CONTINUATION, 0, FLOOD) * 16
    before = resident()
    for _ in range(8):
        assert sent_until_closed(gateway, first, flood, 256 * MIB) < 256 * MIB
    assert answers(embedded)
    with grpc.insecure_channel(gateway) as channel:
        assert cloze_pb2_grpc.ClozeServiceStub(channel).FillMask(GOOD, timeout=CALL_SECONDS).results
    assert resident() - before < 32 * MIB
