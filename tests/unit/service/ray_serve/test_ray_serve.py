"""What runs on Ray Serve, as far as no cluster is needed."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
import yaml
from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import cloze_pb2, model_pb2
from pydantic import ValidationError

pytest.importorskip("ray.serve", reason="Ray is not installed: pip install 'ray[serve]'")

from bertscope_service.contract import HEALTH, METHODS, Method
from bertscope_service.errors import InvalidArgument, NotFound, Overloaded, Unavailable
from bertscope_service.ray_serve import proxy, replica_calls
from bertscope_service.ray_serve.application import INGRESS, Configuration, build
from bertscope_service.ray_serve.calls import Question, Refusal
from bertscope_service.ray_serve.ingress import Ingress, serialise
from bertscope_service.ray_serve.routing import choose
from ray.exceptions import NodeDiedError, OwnerDiedError, RayActorError
from ray.serve.exceptions import BackPressureError

from tests.support.ray_handles import Handle

ALL = (*METHODS.values(), *HEALTH)
SHIPPED = yaml.safe_load((Path(__file__).parents[4] / "deploy" / "ray" / "serve.yaml").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ALL, ids=lambda method: method.name)
def test_the_ingress_has_a_method_for_each_of_the_contract(method: Method) -> None:
    found = getattr(Ingress, method.name)
    assert "grpc_context" in inspect.signature(found).parameters
    assert inspect.isasyncgenfunction(found) == method.streaming
    assert inspect.iscoroutinefunction(found) != method.streaming


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (cloze_pb2.FillMaskRequest(), 1),
        (cloze_pb2.FillMaskRequest(model="models/b"), 2),
        (oip.ModelInferRequest(model_name="b"), 2),
        (oip.ModelReadyRequest(name="models/a"), 1),
        (model_pb2.GetModelRequest(name="models/b"), 2),
        (oip.ServerMetadataRequest(), 1),
    ],
)
def test_a_call_goes_to_the_model_it_names_and_else_to_the_first(request_: Any, expected: int) -> None:
    assert choose({"a": 1, "b": 2}, request_) == expected


def test_a_model_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="loaded: models/a, models/b"):
        choose({"a": 1, "b": 2}, cloze_pb2.FillMaskRequest(model="models/c"))


def test_the_shipped_configuration_names_what_there_is() -> None:
    (application,) = SHIPPED["applications"]
    configuration = Configuration.model_validate(application["args"])
    deployments = {one["name"] for one in application["deployments"]}
    assert deployments == {INGRESS, *(model.name for model in configuration.models)}
    assert application["import_path"] == "bertscope_service.ray_serve.application:build"
    assert SHIPPED["grpc_options"]["grpc_servicer_functions"] == [f"{proxy.__name__}.{proxy.add_services.__name__}"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"models": []}, "at least 1"),
        ({"models": [{"name": "a", "source": "x"}] * 2}, "a different name"),
        ({"models": [{"name": INGRESS, "source": "x"}]}, "a different name"),
        ({"models": [{"name": "a/b", "source": "x"}]}, "pattern"),
        ({"models": [{"name": "a", "source": "x", "replicas": 2}]}, "replicas"),
        ({"settings": {"no_such_setting": 1}}, "no_such_setting"),
        ({"models": [{"name": "a", "source": "x", "settings": {"threads": -1}}]}, "threads"),
        ({"settings": {"tls_certificate": "c", "tls_key": "k"}}, "speaks no TLS"),
        ({"models": [{"name": "a", "source": "x", "settings": {"tls_client_ca": "c"}}]}, "speaks no TLS"),
        ({"models": [{"name": "a", "source": "x", "settings": {"tls_certificate": "c", "tls_key": "k"}}]}, "speaks no TLS"),
        ({"models": [{"name": "a", "source": "x", "settings": {"tokens_file": "t"}}]}, "in the settings of all"),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_is_deployed(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build(args)
    assert "Value error" not in str(caught.value)


def test_tls_in_the_environment_of_a_node_is_refused_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTSCOPE_TLS_CERTIFICATE", "c")
    monkeypatch.setenv("BERTSCOPE_TLS_KEY", "k")
    with pytest.raises(ValidationError, match="tls_certificate, tls_key: Ray's proxy speaks no TLS"):
        Configuration()


def test_queues_are_bounded_unless_the_configuration_says_otherwise() -> None:
    ingress = Configuration().application()._bound_deployment
    (model,) = ingress.init_args[0].values()
    assert (ingress.name, ingress._deployment_config.max_queued_requests) == (INGRESS, 10_000)
    bound = model._bound_deployment
    assert (bound.name, bound._deployment_config.max_queued_requests) == ("bertscope-mini", 1000)


def test_a_request_that_is_too_large_goes_no_further() -> None:
    request = cloze_pb2.FillMaskRequest(texts=["x" * 10])
    assert serialise(request, 12) == request.SerializeToString()
    with pytest.raises(InvalidArgument, match="12 bytes, and this server takes 11"):
        serialise(request, 11)


class Context:
    """What Ray's proxy leaves behind at the end of a call."""

    def __init__(self, code: grpc.StatusCode | None, *trailing: tuple[str, str | bytes]) -> None:
        self._code, self._trailing = code, trailing
        self.endless = self.cancelled_by_ray = self.gone = False
        self.written: list[bytes] = []

    def code(self) -> grpc.StatusCode | None:
        return self._code

    def trailing_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        return self._trailing

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return (("x-request-id", "mine"),)

    async def write(self, message: bytes) -> None:
        if self.gone:
            raise asyncio.CancelledError
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Any) -> NoReturn:
        raise AbortedAs(code, details, dict(trailing_metadata))


class AbortedAs(Exception):
    """A status that was put in the place of another."""


class RaysServer:
    """Replaces what answers, as Ray's server does; every method ends as it is told."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        async def once(request: Any, context: Context) -> bytes:
            return b"reply"

        async def stream(request: Any, context: Context) -> AsyncGenerator[bytes, None]:
            yield b"reply"
            if context.endless:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    context.cancelled_by_ray = True

        (handler,) = handlers
        replaced = {
            path: method._replace(unary_unary=once, unary_stream=stream) for path, method in handler._method_handlers.items()
        }
        handler._method_handlers = replaced
        self._kept = [*getattr(self, "_kept", []), handler]

    def find(self, path: str) -> Any:
        return next(one._method_handlers[path] for one in self._kept if path in one._method_handlers)


class _Nobody:
    """A servicer whose methods are never called."""

    def __getattr__(self, name: str) -> None:
        return None


def answers(context: Context, *, streaming: bool) -> list[bytes]:
    server = RaysServer()
    proxy.add_services(_Nobody(), server)

    async def ask() -> list[bytes]:
        if streaming:
            handler = server.find("/bertscope.v1.AttentionService/ExtractAttention")
            await handler.unary_stream(None, context)
            return context.written
        return [await server.find("/bertscope.v1.ClozeService/FillMask").unary_unary(None, context)]

    return asyncio.run(ask())


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("code", [None, grpc.StatusCode.OK])
def test_an_answer_passes_as_it_is(code: grpc.StatusCode | None, streaming: bool) -> None:
    assert answers(Context(code), streaming=streaming) == [b"reply"]


def test_a_caller_that_leaves_while_a_message_is_sent_cancels_the_call() -> None:
    context = Context(None)
    context.endless = context.gone = True
    with pytest.raises(asyncio.CancelledError):
        answers(context, streaming=True)
    assert context.cancelled_by_ray


def test_a_refusal_of_ours_stays_and_brings_no_message_on_a_stream() -> None:
    refusal = Refusal.of(InvalidArgument("texts", "wrong"), "mine")
    assert answers(Context(refusal.code, *refusal.trailing_metadata), streaming=True) == []


@pytest.mark.parametrize(
    ("of_ray", "told"),
    [
        (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE),
        (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.DEADLINE_EXCEEDED),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_what_ray_itself_says_gets_our_words(of_ray: grpc.StatusCode, told: grpc.StatusCode, streaming: bool) -> None:
    # A stream that broke off had messages of ours before, with our request id.
    with pytest.raises(AbortedAs) as caught:
        answers(Context(of_ray, ("x-request-id", "mine"), ("request_id", "of Ray")), streaming=streaming)
    code, _, metadata = caught.value.args
    assert code is told
    assert metadata["x-request-id"] == "mine"
    assert "grpc-status-details-bin" in metadata


QUESTION = Question("/a/B", b"", "me", ())
LOST: tuple[list[bytes], Exception] = ([], RayActorError())


async def ask(handle: Any) -> Any:
    return await replica_calls.ask(handle, QUESTION)


async def read(handle: Any, into: list[Any]) -> None:
    async for message in replica_calls.stream(handle, QUESTION):
        into.append(message)  # noqa: PERF401 - what came before a failure counts


@pytest.mark.parametrize("error", [RayActorError(), NodeDiedError("gone"), OwnerDiedError("0" * 56, None, "")], ids=type)
@pytest.mark.asyncio
async def test_another_replica_is_asked_when_one_is_lost(error: Exception) -> None:
    lost: tuple[list[bytes], Exception] = ([], error)
    assert await ask(Handle(lost, lost, ([b"reply"], None))) == b"reply"
    found: list[Any] = []
    await read(Handle(lost, ([b"first", b"second"], None)), found)
    assert found == [b"first", b"second"]


@pytest.mark.asyncio
async def test_a_question_takes_down_no_more_than_three_replicas() -> None:
    handle = Handle(*[LOST] * 4)
    with pytest.raises(Unavailable, match="lost"):
        await ask(handle)
    assert handle.asked == 3
    handle = Handle(*[LOST] * 4)
    with pytest.raises(Unavailable, match="lost"):
        await read(handle, [])
    assert handle.asked == 3


@pytest.mark.asyncio
async def test_a_stream_that_has_begun_is_not_begun_again() -> None:
    handle, found = Handle(([b"first"], RayActorError()), ([b"first"], None)), list[Any]()
    with pytest.raises(Unavailable) as caught:
        await read(handle, found)
    assert (caught.value.reason, found, handle.asked) == ("REPLICA_LOST", [b"first"], 1)


@pytest.mark.asyncio
async def test_calls_beyond_the_queue_are_told_to_come_back() -> None:
    full: tuple[list[bytes], Exception] = ([], BackPressureError(num_queued_requests=10, max_queued_requests=10))
    with pytest.raises(Overloaded) as caught:
        await ask(Handle(full))
    assert caught.value.retry_after > 0
    with pytest.raises(Overloaded):
        await read(Handle(full), [])
