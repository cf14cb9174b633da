"""Replies that nobody reads: those of every kind of call take room, others have theirs, and it is free again at the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2, model_pb2
from bertscope_service.api import reply_memory
from bertscope_service.contract import METHODS
from google.protobuf.message import Message

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.http2 import DATA, END_HEADERS, END_STREAM, HEADERS, Connection, request
from tests.support.patience import wait_until
from tools.protos.samples import good

NO_WINDOW = b"\0\x04" + bytes(4)
"""SETTINGS_INITIAL_WINDOW_SIZE 0: nothing of a reply's messages may be sent."""

FILL, QUESTION = "/bertscope.v1.ClozeService/FillMask", cloze_pb2.FillMaskRequest(texts=["The [MASK] sat."], top_k=20)
CALLS = ("FillMask", "ListModels", "ExtractAttention", "SweepHeads", "ModelInfer")


@pytest.fixture(scope="module")
def fresh(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"bert={checkpoints['bert']}"]) as running:
        yield running


class Unread(Connection):
    """A call whose caller takes not a byte of the reply's messages."""

    def __init__(self, target: str, path: str, message: Message) -> None:
        super().__init__(target)
        self.send_settings(NO_WINDOW)
        body = message.SerializeToString()
        self.send(HEADERS, END_HEADERS, request(path, target))
        self.send(DATA, END_STREAM, b"\0" + len(body).to_bytes(4, "big") + body)


def held(host: Host) -> int:
    return host.server._hosting.backend.reply_memory.total


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_unread_replies_take_room_until_it_is_full_and_leave_it_free(
    fresh: Host, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    message = good(checkpoints["bert"])[name]
    method = next(method for method in METHODS.values() if method.name == name)
    path = method.path

    def ask() -> Any:
        return fresh.ask(method, message.SerializeToString())

    assert ask()
    wait_until(lambda: held(fresh) == 0, "what was read takes no room")
    sent = fresh.metric("bertscope_sent_bytes_total", method=name)
    with Unread(fresh.target, path, message):
        wait_until(lambda: fresh.metric("bertscope_sent_bytes_total", method=name) > sent, "it is answered")
        one = held(fresh)
        assert one > 0
    wait_until(lambda: held(fresh) == 0, "its caller has gone")
    # Room for two and a half, a client may have half of it.
    monkeypatch.setattr(reply_memory, "SMALL_BYTES", 0)
    monkeypatch.setattr(reply_memory, "REPLIES_BYTES", 5 * one // 2)
    with Unread(fresh.target, path, message), Unread(fresh.target, path, message):
        wait_until(lambda: held(fresh) == 2 * one, "both take room")
        rejected = fresh.metric("bertscope_rejected_total", reason="replies_full")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
            ask()
        assert failures[0].info.reason == "REPLIES_FULL"
        assert failures[0].retry is not None
        assert fresh.metric("bertscope_rejected_total", reason="replies_full") == rejected + 1
    wait_until(lambda: held(fresh) == 0, "both have gone")
    assert ask()


def test_one_client_has_half_of_the_room_and_small_questions_theirs(fresh: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = fresh.metric("bertscope_sent_bytes_total", method="FillMask")
    with Unread(fresh.target, FILL, QUESTION):
        wait_until(lambda: fresh.metric("bertscope_sent_bytes_total", method="FillMask") > sent, "it is answered")
        one = held(fresh)
        monkeypatch.setattr(reply_memory, "SMALL_BYTES", 0)
        monkeypatch.setattr(reply_memory, "REPLIES_BYTES", 2 * one - 1)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
            fresh.cloze.FillMask(QUESTION, timeout=CALL_SECONDS)
        assert failures[0].info.reason == "REPLIES_FULL"
        monkeypatch.setattr(reply_memory, "REPLIES_BYTES", 10 * one)
        monkeypatch.setattr(reply_memory, "SMALL_BYTES", one - 1)
        monkeypatch.setattr(fresh.server._hosting.backend.reply_memory, "_total", 11 * one)  # as other clients' replies
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            fresh.cloze.FillMask(QUESTION, timeout=CALL_SECONDS)
        assert fresh.models.ListModels(model_pb2.ListModelsRequest(), timeout=CALL_SECONDS).models
        monkeypatch.undo()
