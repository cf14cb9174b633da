"""Tokens and roles on a server: who is refused, how, before what, and that nothing of it leaks."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bertscope
import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import model_pb2 as model
from bertscope_service.contract import REFLECTION
from bertscope_service.security import watched_files as watched
from bertscope_workbench.command.app import run
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from prometheus_client import generate_latest

from tests.support.bearers import ADMIN, READER, STRANGER, bearing, line
from tests.support.harness import CALL_SECONDS, Host, LoopThread, code_of, launched, refused
from tests.support.patience import wait_until

QUESTION = cloze.FillMaskRequest(texts=["Paris is the capital of [MASK]."], top_k=1)
LINES = line("alice", "read", READER) + line("root", "admin", ADMIN)


@pytest.fixture(scope="module")
def tokens_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text(LINES)
    return file


@pytest.fixture(scope="module")
def guarded(loop: LoopThread, checkpoints: dict[str, Path], tokens_file: Path) -> Iterator[Host]:
    """A server that knows alice, who may read, and root, who may do everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched, "CHECK_SECONDS", 0.02)
        with launched(loop, model=[f"bert={checkpoints['bert']}"], tokens_file=tokens_file, channelz=True) as host:
            yield host


def call(host: Host, path: str, data: bytes = b"", **options: Any) -> list[bytes]:
    """Send bytes to a method as they are, whatever kind it is of."""
    method: Any = host.channel.stream_stream(path)
    return list(method(iter([data]), **options))


@pytest.mark.parametrize("path", ["/grpc.channelz.v1.Channelz/GetServers", "/bertscope.v1.ModelService/Nonsense", "/a/b"])
def test_what_the_table_does_not_know_needs_an_admin(guarded: Host, path: str) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        call(guarded, path, timeout=CALL_SECONDS)
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        call(guarded, path, **bearing(READER))
    if "Channelz" in path:
        assert call(guarded, path, **bearing(ADMIN))
    else:
        with pytest.raises(grpc.RpcError) as caught:
            call(guarded, path, **bearing(ADMIN))
        assert code_of(caught.value) is grpc.StatusCode.UNIMPLEMENTED


def test_a_command_without_a_token_is_told_how_to_give_one(guarded: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--target", guarded.target, "models", "list"]) == 1
    assert "answers callers that it knows; give yours with --token-file FILE or $BERTSCOPE_TOKEN" in capsys.readouterr().err


def test_probes_need_no_token(guarded: Host) -> None:
    stub: Any = health_pb2_grpc.HealthStub(guarded.channel)
    assert stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS).status == health_pb2.HealthCheckResponse.SERVING
    for name in ("ServerLive", "ServerReady"):
        assert guarded.raw(f"GRPCInferenceService/{name}", b"", package="inference") == b"\x08\x01"


def test_reflection_answers_readers_alone(guarded: Host) -> None:
    for service in REFLECTION:
        with refused(grpc.StatusCode.UNAUTHENTICATED) as failures:
            call(guarded, f"/{service}/ServerReflectionInfo", timeout=CALL_SECONDS)
        assert failures[0].info.reason == "TOKEN_MISSING"

    class Bearing(grpc.StreamStreamClientInterceptor):  # type: ignore[misc, unused-ignore]
        def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
            return continuation(details._replace(metadata=bearing(READER)["metadata"]), requests)

    with guarded.connect() as channel:
        services = ProtoReflectionDescriptorDatabase(grpc.intercept_channel(channel, Bearing())).get_services()
    assert "bertscope.v1.ClozeService" in services


def test_a_request_is_not_read_before_its_caller_is_known(guarded: Host) -> None:
    """Neither parsed, nor held: not even one that is larger than the server takes."""
    before = guarded.metric("bertscope_received_bytes_total", method="FillMask")
    for data in (b"\xff no protobuf", bytes(guarded.settings.max_message_bytes + 1)):
        for options, code in (
            ({"timeout": CALL_SECONDS}, grpc.StatusCode.UNAUTHENTICATED),
            (bearing(STRANGER), grpc.StatusCode.UNAUTHENTICATED),
        ):
            with refused(code):
                call(guarded, "/bertscope.v1.ClozeService/FillMask", data, **options)
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        call(guarded, "/bertscope.v1.ModelService/LoadModel", b"\xff no protobuf", **bearing(READER))
    assert guarded.metric("bertscope_received_bytes_total", method="FillMask") == before


def test_no_token_is_told_logged_or_counted(
    guarded: Host, caplog: pytest.LogCaptureFixture, check_alive: Callable[[Host], None]
) -> None:
    with caplog.at_level(logging.DEBUG):
        with refused(grpc.StatusCode.UNAUTHENTICATED) as failures:
            guarded.cloze.FillMask(QUESTION, **bearing(STRANGER))
        assert failures[0].info.reason == "TOKEN_UNKNOWN"
        with refused(grpc.StatusCode.PERMISSION_DENIED) as denied:
            guarded.models.UnloadModel(model.UnloadModelRequest(name="models/bert"), **bearing(READER))
        guarded.cloze.FillMask(QUESTION, **bearing(READER))
        wait_until(lambda: "calls refused within" in caplog.text, "the refusals are logged")
    told = f"{failures[0].message} {failures[0].info} {denied[0].message} {denied[0].info}"
    logged = " ".join(
        f"{record.getMessage()} {vars(record)}" for record in caplog.records if record.name.startswith("bertscope")
    )
    counted = generate_latest(guarded.server.metrics.registry).decode()
    for token in (READER, ADMIN, STRANGER):
        for where in (told, logged, counted):
            assert token not in where
            assert hashlib.sha256(token.encode()).hexdigest() not in where


def test_refusals_are_counted_and_carry_the_request_id(guarded: Host) -> None:
    before = guarded.metric("bertscope_rejected_total", reason="token_unknown")
    counted = guarded.metric("bertscope_requests_total", method="FillMask", code="UNAUTHENTICATED")
    mine = (("x-request-id", "mine-1"), *bearing(STRANGER)["metadata"])
    with pytest.raises(grpc.RpcError) as caught:
        guarded.cloze.FillMask(QUESTION, metadata=mine, timeout=CALL_SECONDS)
    error: Any = caught.value
    assert dict(error.trailing_metadata())["x-request-id"] == "mine-1"
    assert guarded.metric("bertscope_rejected_total", reason="token_unknown") == before + 1
    assert guarded.metric("bertscope_requests_total", method="FillMask", code="UNAUTHENTICATED") == counted + 1
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        call(guarded, "/invented.Service/Method", timeout=CALL_SECONDS)
    assert "invented" not in generate_latest(guarded.server.metrics.registry).decode()


def fails_to_reload(host: Host) -> bool:
    return host.metric("bertscope_reload_failing", file="tokens_file") == 1


def rewrite(file: Path, text: str) -> None:
    """Change a file at once: who looks at it meanwhile sees all of the old text or all of the new."""
    new = file.with_name("new")
    new.write_text(text)
    new.replace(file)


def test_tokens_come_and_go_while_the_server_runs(guarded: Host, tokens_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    try:
        rewrite(tokens_file, LINES + line("alice", "read", STRANGER))
        wait_until(lambda: answers(guarded, STRANGER), "the new token is known")
        assert answers(guarded, READER)
        rewrite(tokens_file, f"alice read {READER}\n")
        wait_until(lambda: fails_to_reload(guarded), "it is judged")
        assert answers(guarded, STRANGER)
        assert "line 1" in caplog.text
        assert READER not in caplog.text
        tokens_file.unlink()
        wait_until(lambda: "tokens can't be read" in caplog.text, "it is missed")
        assert fails_to_reload(guarded)
        assert answers(guarded, STRANGER)
    finally:
        rewrite(tokens_file, LINES)
    wait_until(lambda: not answers(guarded, STRANGER), "the token is gone")
    assert not fails_to_reload(guarded)
    assert answers(guarded, READER)


def answers(host: Host, token: str) -> bool:
    with bertscope.Client(host.target, token=token) as client:
        try:
            return bool(client.list_models())
        except bertscope.Unauthenticated:
            return False


async def answers_async(host: Host, token: str) -> bool:
    async with bertscope.AsyncClient(host.target, token=lambda: token) as client:
        try:
            return bool(await client.list_models())
        except bertscope.Unauthenticated:
            return False


def test_both_clients_send_their_token(guarded: Host) -> None:
    assert answers(guarded, READER)
    assert not answers(guarded, STRANGER)
    assert guarded.loop.run(answers_async(guarded, READER))
    assert not guarded.loop.run(answers_async(guarded, STRANGER))
    with bertscope.Client(guarded.target, token=READER) as client, pytest.raises(bertscope.PermissionDenied) as caught:
        client.unload_model("models/bert")
    assert caught.value.reason == "ROLE_REQUIRED"
