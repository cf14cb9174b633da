"""What the ingress on Ray says to its log and its callers; the models behind it are made up."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2
from google.protobuf.message import Message

pytest.importorskip("ray.serve", reason="Ray is not installed: pip install 'ray[serve]'")

from bertscope_service.contract import METHODS, Method, Role
from bertscope_service.ray_serve.ingress import Ingress
from ray import serve

from tests.support.ray_handles import Handle

CANARY = "the-text-of-a-caller"
FILL_MASK = METHODS["/bertscope.v1.ClozeService/FillMask"]
CHANGING = {"LoadModel", "UnloadModel", "CompressModel", "DistillModel", "PruneHeads"}
REQUEST = cloze_pb2.FillMaskRequest(texts=[CANARY])


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Restores the level of the service's logs, which an ingress sets for its process."""
    logger = logging.getLogger("bertscope_service")
    before = logger.level
    yield
    logger.setLevel(before)


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


def call(
    outcome: bytes | Exception, context: Context, method: Method = FILL_MASK, request: Message = REQUEST, **settings: Any
) -> bytes:
    model = Handle(([outcome], None) if isinstance(outcome, bytes) else ([], outcome))

    async def go() -> bytes:
        ingress = Ingress.__new__(Ingress)
        await Ingress.__init__(ingress, {"a": model}, settings)
        if method.streaming:
            return b"".join([reply.SerializeToString() async for reply in ingress.answers(method, request, context)])
        return (await ingress.answer(method, request, context)).SerializeToString()

    return asyncio.run(go())


@pytest.fixture(autouse=True)
def _in_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "get_replica_context", lambda: SimpleNamespace(app_name="ours"))


def test_a_reply_passes_as_it_is_with_the_id_of_the_call() -> None:
    context = Context(("x-request-id", "mine"))
    assert call(b"reply", context) == b"reply"
    assert (context.code, context.trailing) == (None, {"x-request-id": "mine"})


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_what_is_about_all_models_reaches_no_replica(method: Method) -> None:
    """What changes models and what needs several is refused, what lists them is answered, and the rest goes to a replica."""
    context = Context()
    if method.name in CHANGING or method.name.startswith("Benchmark"):
        assert call(b"reply", context, method, method.request()) == b""
        assert context.code is grpc.StatusCode.UNIMPLEMENTED
        assert f"{method.name} is not to be had on Ray Serve" in context.details
    elif method.whole_process:
        assert method.name in {"ListModels", "ServerLive", "ServerReady"}
    else:
        assert method.role <= Role.READ
        assert call(b"reply", context, method, method.request()) == b"reply"
        assert context.code is None


def test_the_log_has_where_something_failed_and_no_words_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    context = Context(("x-request-id", "mine"))
    assert call(ValueError(f"can't read {CANARY}"), context) == b""
    assert context.code is grpc.StatusCode.INTERNAL
    assert CANARY not in context.details
    assert CANARY not in caplog.text
    assert "FillMask failed, request_id=mine" in caplog.text
    assert "ValueError" in caplog.text
    assert "in _once" in caplog.text


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (None, "anyone who can reach Ray's proxy may call all models; close it with tokens_file"),
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
