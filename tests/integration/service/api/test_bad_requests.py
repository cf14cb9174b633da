"""What is no request is refused, and limits of requests come from the settings; tests/samples/ has what rpcs refuse."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze

from tests.support.harness import CALL_SECONDS, Host, refused

GOOD = "The [MASK] sat."
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def fill(host: Host, **fields: Any) -> None:
    host.cloze.FillMask(cloze.FillMaskRequest(**fields), timeout=CALL_SECONDS)


MALFORMED = (b"\xff", b"\x12\x05ab", b"\x0a\x02\xff\xfe", b"\x0a\x01\x80", b"garbage" * 100)


@pytest.mark.slow
@pytest.mark.parametrize("data", MALFORMED)
@pytest.mark.parametrize("method", ["ClozeService/FillMask", "AttentionService/ExtractAttention", "ModelService/GetModel"])
def test_bytes_that_are_no_message(host: Host, method: str, data: bytes) -> None:
    send = host.raw_stream if method.endswith("ExtractAttention") else host.raw
    with refused(INVALID) as failures:
        send(method, data)
    assert failures[0].info.reason == "MALFORMED_REQUEST"
    assert "UTF-8" in failures[0].message


def test_a_text_that_is_not_utf_8(host: Host) -> None:
    text = "Zürich is in [MASK].".encode("latin-1")
    with refused(INVALID) as failures:
        host.raw("ClozeService/FillMask", b"\x12" + bytes([len(text)]) + text)
    assert "encode text as UTF-8" in failures[0].message


def test_unknown_methods_and_services(host: Host) -> None:
    for method in ("ClozeService/FillMasks", "NoService/Nothing"):
        with pytest.raises(grpc.RpcError) as caught:
            host.raw(method, b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.slow
def test_a_message_over_the_limit_is_refused_by_the_transport(launch: Callable[..., Host], check_alive: Any) -> None:
    small = launch(max_message_bytes=10_000)
    with pytest.raises(grpc.RpcError) as caught:
        fill(small, texts=[GOOD + "x" * 10_000])
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "10000" in str(caught.value.details())
    check_alive(small)


@pytest.mark.slow
def test_limits_come_from_the_settings(launch: Callable[..., Host]) -> None:
    small = launch(max_texts=2, max_text_characters=30)
    fill(small, texts=[GOOD, GOOD])
    with refused(INVALID) as failures:
        fill(small, texts=[GOOD] * 3)
    assert "takes 2" in failures[0].message
    with refused(INVALID) as failures:
        fill(small, texts=[GOOD + "x" * 30])
    assert "takes 30" in failures[0].message
