"""Takes calls from Ray's proxy, and forwards each to the replicas of its model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
from bertscope.v1 import model_pb2
from google.protobuf.message import Message

from bertscope_service.api.pages import cut_page, parse_page
from bertscope_service.contract import HEALTH, METHODS, Method, Work
from bertscope_service.errors import InvalidArgument, NotFound
from bertscope_service.observability.logs import frames
from bertscope_service.observability.request_ids import REQUEST_ID, request_id
from bertscope_service.ray_serve import replica_calls
from bertscope_service.ray_serve.authorization import Authorizer
from bertscope_service.ray_serve.calls import FORWARDED, NOTHING, Question, Refusal, Serialised
from bertscope_service.ray_serve.health import Health
from bertscope_service.ray_serve.readiness import Readiness
from bertscope_service.ray_serve.routing import choose, refused
from bertscope_service.settings import Settings

if TYPE_CHECKING:
    from ray.serve.grpc_util import RayServegRPCContext
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger(__name__)

GET_MODEL = "/bertscope.v1.ModelService/GetModel"
"""A replica that is called without a model's name describes its own."""


class Ingress:
    """Answers every method of the contract, by Ray's rules: a method has the RPC's name and takes `grpc_context`.

    It computes nothing: it answers methods about all models, rejects methods that change them, and forwards the rest, which
    only reads, so that another replica may be called when one is lost. The methods are added below the class, from the
    contract.
    """

    async def __init__(self, models: dict[str, DeploymentHandle[Any]], settings: dict[str, Any]) -> None:  # type: ignore[misc]
        """Initialises the ingress; awaited by Ray. `models` by their ids, the default one first. Raises ServiceError."""
        read = Settings(**settings)
        logging.getLogger("bertscope_service").setLevel(read.log_level.upper())
        self._models = models
        self._max_bytes = read.max_message_bytes
        self._authorizer = Authorizer(read.client_identity, read.tokens_file)
        self._health = Health(Readiness(models))
        self._own: Mapping[str, Callable[[Any, Question], Any]] = {
            "Check": lambda request, _: self._health.check(request),
            "Watch": lambda request, _: self._health.watch(request),
            "ServerLive": lambda request, _: self._health.server_live(request),
            "ServerReady": lambda request, _: self._health.server_ready(request),
            "ListModels": self._list_models,
        }

    async def answer(self, method: Method, request: Message, context: RayServegRPCContext) -> Serialised:
        """Answers a unary call."""
        call_id = request_id(context.invocation_metadata())
        try:
            question = self._admit(method, request, context, call_id)
            reply = await self._reply(method, request, question)
        except Exception as error:  # noqa: BLE001 - Ray would tell callers its text
            reply = _refusal(error, method, call_id)
        return _send(reply, context, call_id)

    async def answers(self, method: Method, request: Message, context: RayServegRPCContext) -> AsyncGenerator[Serialised, None]:
        """Answers a streaming call."""
        call_id = request_id(context.invocation_metadata())
        try:
            question = self._admit(method, request, context, call_id)
            async with aclosing(self._replies(method, request, question)) as replies:
                async for reply in replies:
                    yield _send(reply, context, call_id)
        except Exception as error:  # noqa: BLE001 - as above
            yield _send(_refusal(error, method, call_id), context, call_id)

    def _admit(self, method: Method, request: Message, context: RayServegRPCContext, call_id: str) -> Question:
        client = self._authorizer.admit(method.path, context)
        if method.whole_process and method.name not in self._own:
            raise refused(method.name)
        raw = serialise(request, self._max_bytes)
        forwarded = [pair for pair in context.invocation_metadata() if pair[0] in FORWARDED]
        return Question(method.path, raw, client, ((REQUEST_ID, call_id), *forwarded))

    async def _reply(self, method: Method, request: Any, question: Question) -> bytes | Refusal:
        if method.whole_process:
            reply: Message | Refusal = await self._own[method.name](request, question)
            return reply if isinstance(reply, Refusal) else reply.SerializeToString()
        try:
            model = choose(self._models, request)
        except NotFound:
            if method.work is not Work.PROBE:
                raise
            return method.response().SerializeToString()  # not ready, which is not an error
        return await replica_calls.ask(model, question)

    async def _replies(self, method: Method, request: Any, question: Question) -> AsyncGenerator[bytes | Refusal, None]:
        if method.whole_process:
            async with aclosing(self._own[method.name](request, question)) as statuses:
                async for status in statuses:
                    yield status.SerializeToString()
            return
        async with aclosing(replica_calls.stream(choose(self._models, request), question)) as answers:
            async for answer in answers:
                yield answer

    async def _list_models(self, request: model_pb2.ListModelsRequest, question: Question) -> Message | Refusal:
        """Returns each model as one of its replicas describes it, in the order of the configuration."""
        size, after = parse_page(request)
        page, token = cut_page([f"models/{name}" for name in self._models], size, after)
        described = replace(question, path=GET_MODEL, request=b"")
        answers = await asyncio.gather(*(replica_calls.ask(model, described) for model in list(self._models.values())[page]))
        models = []
        for answer in answers:
            if isinstance(answer, Refusal):
                return answer
            models.append(model_pb2.GetModelResponse.FromString(answer).model)
        return model_pb2.ListModelsResponse(models=models, next_page_token=token)


def serialise(request: Message, max_bytes: int) -> bytes:
    """Serialises a request. Raises InvalidArgument if our own server would reject its size: Ray's proxy takes larger ones."""
    raw = request.SerializeToString()
    if len(raw) > max_bytes:
        message = f"the request has {len(raw)} bytes, and this server takes {max_bytes}; send fewer texts at once"
        raise InvalidArgument("", message, "REQUEST_TOO_LARGE")
    return raw


def _refusal(error: Exception, method: Method, call_id: str) -> Refusal:
    refusal = Refusal.of(error, call_id)
    if refusal.code is grpc.StatusCode.INTERNAL:
        # Ray writes the log, and the error's message may quote a text.
        logger.error("%s failed, request_id=%s\n%s", method.name, call_id, frames(error))
    return refusal


def _send(reply: bytes | Refusal, context: RayServegRPCContext, call_id: str) -> Serialised:
    """Puts the call's status into the context, which Ray passes to its proxy with each message."""
    if isinstance(reply, Refusal):
        context.set_code(reply.code)
        context.set_details(reply.details)
        metadata: list[Any] = list(reply.trailing_metadata)
        context.set_trailing_metadata(metadata)
        return NOTHING
    context.set_trailing_metadata([(REQUEST_ID, call_id)])
    return Serialised(reply)


def _unary(method: Method) -> Any:
    async def call(self: Ingress, request: Message, grpc_context: RayServegRPCContext) -> Serialised:
        return await self.answer(method, request, grpc_context)

    return call


def _streaming(method: Method) -> Any:
    async def call(self: Ingress, request: Message, grpc_context: RayServegRPCContext) -> AsyncGenerator[Serialised, None]:
        async with aclosing(self.answers(method, request, grpc_context)) as replies:
            async for reply in replies:
                yield reply

    return call


for _method in (*METHODS.values(), *HEALTH):
    setattr(Ingress, _method.name, _streaming(_method) if _method.streaming else _unary(_method))
