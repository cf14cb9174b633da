"""What the ingress on Ray says to its log and its callers; the models behind it are made up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2

pytest.importorskip("ray.serve", reason="Ray is not installed: pip install 'bertscope-service[ray]'")

from bertscope_service.ray_serve.ingress import Ingress
from ray import serve

CANARY = "the-text-of-a-caller"
REQUEST = cloze_pb2.FillMaskRequest(texts=[CANARY])


class Context:
    """What Ray gives a method beside its request, and what it takes from it."""

    def __init__(self, *metadata: tuple[str, str]) -> None:
        self._metadata = metadata
        self.code: grpc.StatusCode | None = None
        self.details = ""
        self.trailing: dict[str, str | bytes] = {}

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return self._metadata

    def peer(self) -> str:
        return "ipv4:10.0.0.1:5000"

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, metadata: list[tuple[str, str | bytes]]) -> None:
        self.trailing = dict(metadata)


class Model:
    """The handle of a deployment, whose replicas answer with a reply or fail."""

    deployment_name = "a"

    def __init__(self, outcome: bytes | Exception) -> None:
        self._outcome = outcome
        self.ask = self

    async def remote(self, _: object) -> bytes:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def call(outcome: bytes | Exception, context: Context, **settings: Any) -> bytes:
    async def go() -> bytes:
        ingress = Ingress.__new__(Ingress)
        await Ingress.__init__(ingress, {"a": Model(outcome)}, settings)
        (method,) = [m for m in cloze_pb2.DESCRIPTOR.services_by_name["ClozeService"].methods if m.name == "FillMask"]
        return (await ingress.answer(method, REQUEST, context)).SerializeToString()

    return asyncio.run(go())


@pytest.fixture(autouse=True)
def _in_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "get_replica_context", lambda: SimpleNamespace(app_name="ours"))


def test_a_reply_passes_as_it_is_with_the_id_of_the_call() -> None:
    context = Context(("x-request-id", "mine"))
    assert call(b"reply", context) == b"reply"
    assert (context.code, context.trailing) == (None, {"x-request-id": "mine"})


def test_the_log_has_where_something_failed_and_no_words_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    context = Context(("x-request-id", "mine"))
    assert call(ValueError(f"can't read {CANARY}"), context) == b""
    assert context.code is grpc.StatusCode.INTERNAL
    assert CANARY not in context.details
    assert CANARY not in caplog.text
    assert "FillMask failed, request_id=mine" in caplog.text
    assert "ValueError" in caplog.text
    assert "in remote" in caplog.text


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (None, "whoever reaches Ray's proxy may ask all models; close it with tokens_file"),
        (f"alice read sha256:{'0' * 64}\n", "callers need a token, which travels in clear text"),
    ],
)
def test_an_ingress_says_how_open_it_is(lines: str | None, told: str, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings = {}
    if lines is not None:
        (tmp_path / "tokens").write_text(lines)
        settings["tokens_file"] = tmp_path / "tokens"
    context = Context()
    call(b"reply", context, **settings)
    assert [record.message for record in caplog.records if told in record.message and record.levelno == logging.WARNING]
    assert context.code is (None if lines is None else grpc.StatusCode.UNAUTHENTICATED)
