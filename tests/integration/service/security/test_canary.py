"""A word that goes through every rpc, answered and refused, and a token that goes with it, are in no log, metric or error."""

import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2
from bertscope_service import contract
from bertscope_service.api import cloze as cloze_servicer
from bertscope_service.observability.logs import JsonFormatter, TextFormatter
from google.protobuf.message import Message
from prometheus_client import generate_latest

from tests.support.harness import Host
from tests.support.patience import wait_until
from tools.protos.samples import SAID, WORD, good, refused_requests

TOKEN = "s3cr3t-t0k3n"
METHODS = {method.name: method for method in contract.METHODS.values()}


def ask(host: Host, name: str, request: Message) -> list[bytes]:
    """All replies, as bytes."""
    return host.ask(METHODS[name], request.SerializeToString(), metadata=(("authorization", f"Bearer {TOKEN}"),))


def check(place: str, found: str) -> None:
    # Half of the word would be too much as well.
    for secret in (WORD, WORD[: len(WORD) // 2], TOKEN):
        assert secret not in found, f"{place} has what a caller sent: {found}"


class Seen:
    """What the server has shown of itself since the test began."""

    def __init__(self, host: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
        caplog.set_level(logging.DEBUG)
        self._host, self._caplog, self._capfd = host, caplog, capfd

    @property
    def calls(self) -> int:
        """How many are in the log."""
        return sum(record.name == "bertscope.requests" and hasattr(record, "milliseconds") for record in self._caplog.records)

    def check(self) -> None:
        for formatter in (TextFormatter(), JsonFormatter()):
            for record in self._caplog.records:
                check("the log", formatter.format(record))
        check("the page of metrics", generate_latest(self._host.server.metrics.registry).decode())
        for stream in self._capfd.readouterr():
            check("the terminal", stream)


@pytest.fixture
def seen(lab: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Seen:
    return Seen(lab, caplog, capfd)


@pytest.mark.usefixtures("brief")
def test_what_is_answered_leaves_no_trace(lab: Host, seen: Seen, checkpoints: dict[str, Path]) -> None:
    calls = good(checkpoints["bert"])
    before = lab.names()
    for name, request in calls.items():
        assert ask(lab, name, request), name
    made = [name for name in lab.names() if name not in before]
    lab.unload_all_but(before)
    wait_until(lambda: seen.calls == len(calls) + 3 + len(made), "every call is in the log")
    seen.check()


def test_what_is_refused_leaves_no_trace(lab: Host, seen: Seen) -> None:
    bad_ones = refused_requests()
    for method, *_, request in bad_ones:
        with pytest.raises(grpc.RpcError) as caught:
            ask(lab, method.name, request)
        assert caught.value.code() is not grpc.StatusCode.INTERNAL, (method.name, caught.value.details())
        trailing = " ".join(str(value) for _, value in caught.value.trailing_metadata())
        check(f"the error of {method.name}", f"{caught.value.details()} {trailing}")
    wait_until(lambda: seen.calls == len(bad_ones), "every call is in the log")
    seen.check()


def test_what_is_malformed_leaves_no_trace(lab: Host, seen: Seen) -> None:
    malformed = [b"\xff" + WORD.encode(), b"\x12\x10" + WORD.encode() + b"\xff\xff"]
    for data in malformed:
        with pytest.raises(grpc.RpcError) as caught:
            lab.raw("ClozeService/FillMask", data)
        check("the error", str(caught.value.details()))
    wait_until(lambda: seen.calls == len(malformed), "every call is in the log")
    seen.check()


def test_a_bug_that_quotes_a_text_leaves_no_trace(lab: Host, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(query: Any, tokenizer: object) -> None:
        try:
            raise KeyError(query.texts[0])
        except KeyError as error:
            raise RuntimeError(f"can't read {query.texts}") from error

    monkeypatch.setattr(cloze_servicer, "ClozePlan", broken)
    with pytest.raises(grpc.RpcError) as caught:
        ask(lab, "FillMask", cloze_pb2.FillMaskRequest(texts=[SAID]))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    check("the error", f"{caught.value.details()} {caught.value.trailing_metadata()}")
    wait_until(lambda: seen.calls == 1, "the call is in the log")
    seen.check()
