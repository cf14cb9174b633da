"""Starting, health, reflection, and stopping without losing what runs."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import cloze_pb2_grpc, common_pb2
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.sources import Source
from bertscope_service.contract import METHODS, SERVICES
from bertscope_service.errors import AlreadyExists
from bertscope_service.rpc.reflection import v1_file
from bertscope_service.rpc.server import Server
from bertscope_service.settings import Settings
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from tests.support.harness import CALL_SECONDS, Host, LoopThread, held, read_maps, refused
from tests.support.patience import granted, wait_until

Status = health_pb2.HealthCheckResponse
NAMES = "Ablation Attention Attribution Benchmark Classification Cloze Distillation Inspection Model QuestionAnswering"
OURS = {f"bertscope.v1.{name}Service" for name in (*NAMES.split(), "Representation")} | {"inference.GRPCInferenceService"}
GOOD = cloze.FillMaskRequest(texts=["The [MASK] sat."])


def health(host: Host, service: str = "") -> int:
    stub: Any = health_pb2_grpc.HealthStub(host.channel)
    reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_SECONDS)
    return int(reply.status)


def stream_of(texts: int) -> attention.ExtractAttentionRequest:
    inputs = [common_pb2.TextInput(text="the cat sat on the mat " * 8) for _ in range(texts)]
    return attention.ExtractAttentionRequest(inputs=inputs)


def is_refused(host: Host) -> bool:
    try:
        host.models.GetModel(model.GetModelRequest(), timeout=CALL_SECONDS)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        return True
    return False


def test_health_says_serving_once_all_models_are_there(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch(load=False)
    assert set(SERVICES) == OURS
    for service in ("", *OURS):
        assert health(host, service) == Status.NOT_SERVING
    with refused(grpc.StatusCode.UNAVAILABLE) as failures:
        host.cloze.FillMask(GOOD, timeout=CALL_SECONDS)
    assert failures[0].info.reason == "SERVER_STARTING"
    assert "has not loaded models/bert yet; call another server" in failures[0].message
    loop.run(host.server.load_models())
    for service in ("", *OURS):
        assert health(host, service) == Status.SERVING
    assert host.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results


def test_a_server_that_has_not_imported_its_models_libraries_says_that_it_starts(
    loop: LoopThread, checkpoints: dict[str, Path]
) -> None:
    """It takes calls at once, and imports PyTorch beside them."""
    server = loop.run(make(Settings(port=0, metrics_port=0, runtime="torch", model=[f"bert={checkpoints['bert']}"])))
    ports = loop.run(server.start())
    try:
        with grpc.insecure_channel(f"127.0.0.1:{ports.grpc}") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            check = partial(stub.Check, health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
            fill = partial(cloze_pb2_grpc.ClozeServiceStub(channel).FillMask, GOOD, timeout=CALL_SECONDS)
            assert check().status == Status.NOT_SERVING
            for method in METHODS.values():
                call: Any = (channel.unary_stream if method.streaming else channel.unary_unary)(method.path)
                with refused(grpc.StatusCode.UNAVAILABLE) as failures:
                    replies = call(b"", timeout=CALL_SECONDS)
                    assert not method.streaming or list(replies)
                assert failures[0].info.reason == "SERVER_STARTING", method.path
            loop.run(server.host())
            with refused(grpc.StatusCode.UNAVAILABLE) as failures:
                fill()
            assert failures[0].info.metadata["model"] == "models/bert"
            loop.run(server.load_models())
            assert check().status == Status.SERVING
            assert fill().results
    finally:
        loop.run(server.stop(0))


async def make(settings: Settings) -> Server:
    return Server(settings)


def test_health_of_an_unknown_service(host: Host) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        health(host, "bertscope.v1.NoService")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def v1_of_reflection() -> dict[str, Any]:
    """The messages of v1, as a client has them that was made from gRPC's own file: in a pool of its own."""
    pool = DescriptorPool()
    file = v1_file()
    pool.Add(file)
    return {one.name: GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{one.name}")) for one in file.message_type}


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_lists_our_services_and_describes_them(host: Host, version: str) -> None:
    """To clients of either version."""
    messages = v1_of_reflection() if version == "v1" else vars(reflection_pb2)
    ask = messages["ServerReflectionRequest"]
    connect: Any = host.channel.stream_stream
    stream = connect(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=ask.SerializeToString,
        response_deserializer=messages["ServerReflectionResponse"].FromString,
    )
    services = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
    symbols = [*sorted(OURS | services), "bertscope.v1.ClozeService.FillMask", "grpc.reflection.v1.ServerReflectionRequest"]
    requests = [ask(list_services=""), *(ask(file_containing_symbol=name) for name in symbols)]
    requests += [ask(file_by_filename="grpc/reflection/v1/reflection.proto"), ask(file_containing_symbol="no.Such")]
    listed, *files, by_name, unknown = stream(iter(requests), timeout=CALL_SECONDS)
    assert {service.name for service in listed.list_services_response.service} == OURS | services
    for name, reply in zip(symbols, files, strict=True):
        described = FileDescriptorProto.FromString(reply.file_descriptor_response.file_descriptor_proto[0])
        assert name.startswith(f"{described.package}.")
        assert reply.original_request.file_containing_symbol
    assert FileDescriptorProto.FromString(by_name.file_descriptor_response.file_descriptor_proto[0]) == v1_file()
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_stopping_finishes_what_runs_and_takes_nothing_new(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch()
    with held(host) as gate:
        stream = host.attention.ExtractAttention(stream_of(30), timeout=CALL_SECONDS)
        answer = host.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
        for method in ("ExtractAttention", "FillMask"):
            wait_until(lambda method=method: host.metric("bertscope_requests_in_flight", method=method), "both run")
        wait_until(lambda: gate.arrived, "the device is busy")
        stopping = asyncio.run_coroutine_threadsafe(host.server.stop(20), loop.loop)
        wait_until(lambda: is_refused(host), "new calls are refused")
        with host.connect() as channel, pytest.raises(grpc.RpcError) as caught:
            type(host.cloze)(channel).FillMask(GOOD, timeout=CALL_SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not stopping.done()
        gate.let_through()
        assert len(read_maps(stream)) == 30
        assert len(answer.result().results) == 1
        stopping.result(CALL_SECONDS)


def test_calls_that_outlast_the_grace_period_are_told_to_ask_another(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch()
    with held(host) as gate:
        stream = host.attention.ExtractAttention(stream_of(3), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "a batch runs")
        queued = host.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
        wait_until(lambda: host.metric("bertscope_requests_in_flight", method="FillMask"), "another call waits")
        stopping = asyncio.run_coroutine_threadsafe(host.server.stop(0.1), loop.loop)
        for end in (queued.result, lambda: list(stream)):
            with refused(grpc.StatusCode.UNAVAILABLE) as failures:
                end()
            assert failures[0].info.reason == "DRAINING"
            assert failures[0].message == "the server is stopping; ask another one"
        gate.let_through()
        stopping.result(CALL_SECONDS)
    for method in ("FillMask", "ExtractAttention"):
        assert host.metric("bertscope_requests_in_flight", method=method) == 0
        assert host.metric("bertscope_requests_total", method=method, code="UNAVAILABLE") == 1
        assert host.metric("bertscope_requests_total", method=method, code="OK") == 0


def test_calls_are_taken_for_a_while_after_health_says_not_serving(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch()
    stopping = asyncio.run_coroutine_threadsafe(host.server.stop(20, drain_seconds=600), loop.loop)
    wait_until(lambda: health(host) == Status.NOT_SERVING, "health says so")
    with host.connect() as newcomer:
        assert len(type(host.cloze)(newcomer).FillMask(GOOD, timeout=CALL_SECONDS).results) == 1
    assert not stopping.done()
    loop.loop.call_soon_threadsafe(host.server.stop_now)
    stopping.result(CALL_SECONDS)
    assert is_refused(host)


def test_while_connections_are_told_nobody_hears_an_answer_or_a_refusal(launch: Callable[..., Host], loop: LoopThread) -> None:
    host = launch()
    calls = host.server._calls

    async def hold() -> None:
        calls.draining = True
        async with calls.holding_replies():
            arrived.set()
            await told.wait()

    arrived, told = threading.Event(), asyncio.Event()
    with held(host) as gate:
        running = host.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "a call runs")
        holding = asyncio.run_coroutine_threadsafe(hold(), loop.loop)
        assert arrived.wait(CALL_SECONDS)
        batches = host.metric("bertscope_batch_rows_count", device="cpu")
    wait_until(lambda: host.metric("bertscope_batch_rows_count", device="cpu") > batches, "its batch has run")
    late = host.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
    wait_until(lambda: host.metric("bertscope_rejected_total", reason="draining"), "another call is there")
    assert not running.done()
    assert not late.done()
    loop.loop.call_soon_threadsafe(told.set)
    assert running.result().results
    with refused(grpc.StatusCode.UNAVAILABLE):
        late.result()
    holding.result(CALL_SECONDS)


async def start(settings: Settings) -> None:
    server = Server(settings)
    try:
        await server.start()
    finally:
        await server.stop(0)


def test_a_port_that_is_taken_is_named(loop: LoopThread, host: Host) -> None:
    for port, flag in ((host.ports.grpc, "--port"), (host.ports.metrics, "--metrics-port")):
        settings: dict[str, Any] = {"port": 0, "metrics_port": 0} | {flag[2:].replace("-", "_"): port}
        with pytest.raises(OSError, match=f"127.0.0.1:{port}; is the port taken.* {flag}$"):
            loop.run(start(Settings(**settings)))


def test_a_server_that_starts_answers_for_what_it_has_loaded_and_sends_callers_of_the_rest_to_another(
    launch: Callable[..., Host], loop: LoopThread, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, digest = threading.Event(), Source.digest

    def read_later(source: Source, report: Any) -> str:
        assert not str(source.folder).endswith("roberta") or go_on.wait(granted(60))
        return digest(source, report)

    monkeypatch.setattr(Source, "digest", read_later)
    host = launch(load=False, model=[f"first={checkpoints['bert']}", f"second={checkpoints['roberta']}"])
    loading = asyncio.run_coroutine_threadsafe(host.server.load_models(), loop.loop)

    def states() -> list[int]:
        return [one.state for one in host.models.ListModels(model.ListModelsRequest(), timeout=CALL_SECONDS).models]

    wait_until(lambda: states() == [model.Model.STATE_READY, model.Model.STATE_LOADING], "the first is loaded")
    assert health(host) == Status.NOT_SERVING
    for name in ("", "models/first"):
        assert host.cloze.FillMask(cloze.FillMaskRequest(model=name, texts=[GOOD.texts[0]]), timeout=CALL_SECONDS).results
    second = cloze.FillMaskRequest(model="models/second", texts=["The <mask> sat."])
    with refused(grpc.StatusCode.UNAVAILABLE) as failures:
        host.cloze.FillMask(second, timeout=CALL_SECONDS)
    assert (failures[0].info.reason, failures[0].info.metadata["model"]) == ("SERVER_STARTING", "models/second")
    with refused(grpc.StatusCode.NOT_FOUND):
        host.cloze.FillMask(cloze.FillMaskRequest(model="models/third", texts=[GOOD.texts[0]]), timeout=CALL_SECONDS)
    taken = model.LoadModelRequest(model_id="second", source=str(checkpoints["bert"]))
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        list(host.models.LoadModel(taken, timeout=CALL_SECONDS))
    taken.replace = True
    with refused(grpc.StatusCode.FAILED_PRECONDITION):
        list(host.models.LoadModel(taken, timeout=CALL_SECONDS))
    go_on.set()
    loading.result(CALL_SECONDS)
    assert health(host) == Status.SERVING
    assert host.cloze.FillMask(second, timeout=CALL_SECONDS).results


def test_two_models_of_one_name_are_refused_before_anything_is_loaded(launch: Callable[..., Host]) -> None:
    with pytest.raises(
        AlreadyExists, match=r"models/a is taken; give the model another name, or leave one out of the two --model"
    ):
        launch(load=False, model=["a=/no/folder", "a=/no/other"])
