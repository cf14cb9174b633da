"""Takes calls from Ray's proxy, and asks the replicas of the model that each one names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import model_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from bertscope_service.errors import InvalidArgument, NotFound
from bertscope_service.logs import frames
from bertscope_service.messages.pages import cut_page, parse_page
from bertscope_service.ray_serve import asking
from bertscope_service.ray_serve.calls import FORWARDED, NOTHING, Question, Refusal, Serialised
from bertscope_service.ray_serve.doorkeeper import Doorkeeper
from bertscope_service.ray_serve.health import Health
from bertscope_service.ray_serve.readiness import Readiness
from bertscope_service.ray_serve.routing import choose, methods, path_of, require_answerable
from bertscope_service.request_ids import REQUEST_ID, request_id
from bertscope_service.settings import Settings

if TYPE_CHECKING:
    from ray.serve.grpc_util import RayServegRPCContext
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger(__name__)

GET_MODEL = "/bertscope.v1.ModelService/GetModel"
"""A replica asked for no model by name describes its own."""


class Ingress:
    """Answers every method of the contract, by Ray's rules: a method bears the RPC's name and takes `grpc_context`.

    It computes nothing. Those methods are added below the class, from the contract.
    """

    async def __init__(self, models: dict[str, DeploymentHandle[Any]], settings: dict[str, Any]) -> None:  # type: ignore[misc]
        """Awaited by Ray. `models` by their ids, the default one first. Raises ServiceError."""
        read = Settings(**settings)
        logging.getLogger("bertscope_service").setLevel(read.log_level.upper())
        self._models = models
        self._max_bytes = read.max_message_bytes
        self._doorkeeper = Doorkeeper(read)
        self._health = Health(Readiness(models))
        self._own: dict[str, Callable[[Any], Awaitable[Message]]] = {
            "Check": self._health.check,
            "ServerReady": self._health.server_ready,
            "ServerLive": self._health.server_live,
        }

    async def answer(self, method: MethodDescriptor, request: Message, context: RayServegRPCContext) -> Serialised:
        """A call that is answered once."""
        call_id = request_id(context.invocation_metadata())
        try:
            question = self._admit(method, request, context, call_id)
            reply = await self._reply(method, request, question)
        except Exception as error:  # noqa: BLE001 - Ray would tell callers its text
            reply = _refusal(error, method, call_id)
        return _send(reply, context, call_id)

    async def answers(
        self, method: MethodDescriptor, request: Message, context: RayServegRPCContext
    ) -> AsyncGenerator[Serialised, None]:
        """A call that is answered by a stream."""
        call_id = request_id(context.invocation_metadata())
        try:
            question = self._admit(method, request, context, call_id)
            async with aclosing(self._replies(method, request, question)) as replies:
                async for reply in replies:
                    yield _send(reply, context, call_id)
        except Exception as error:  # noqa: BLE001 - as above
            yield _send(_refusal(error, method, call_id), context, call_id)

    def _admit(self, method: MethodDescriptor, request: Message, context: RayServegRPCContext, call_id: str) -> Question:
        path = path_of(method)
        client = self._doorkeeper.admit(path, context)
        require_answerable(method.name)
        raw = serialise(request, self._max_bytes)
        forwarded = [pair for pair in context.invocation_metadata() if pair[0] in FORWARDED]
        return Question(path, raw, client, ((REQUEST_ID, call_id), *forwarded))

    async def _reply(self, method: MethodDescriptor, request: Any, question: Question) -> bytes | Refusal:
        if method.name in self._own:
            return (await self._own[method.name](request)).SerializeToString()
        if method.name == "ListModels":
            return await self._list_models(request, question)
        try:
            model = choose(self._models, request)
        except NotFound:
            if method.name != "ModelReady":
                raise
            return oip.ModelReadyResponse(ready=False).SerializeToString()
        return await asking.ask(model, question)

    async def _replies(
        self, method: MethodDescriptor, request: Any, question: Question
    ) -> AsyncGenerator[bytes | Refusal, None]:
        if method.name == "Watch":
            async with aclosing(self._health.watch(request)) as statuses:
                async for status in statuses:
                    yield status.SerializeToString()
            return
        async with aclosing(asking.stream(choose(self._models, request), question)) as answers:
            async for answer in answers:
                yield answer

    async def _list_models(self, request: model_pb2.ListModelsRequest, question: Question) -> bytes | Refusal:
        """Each model as one of its replicas describes it, in the order of the configuration."""
        size, after = parse_page(request)
        page, token = cut_page([f"models/{name}" for name in self._models], size, after)
        described = replace(question, path=GET_MODEL, request=b"")
        answers = await asyncio.gather(*(asking.ask(model, described) for model in list(self._models.values())[page]))
        models = []
        for answer in answers:
            if isinstance(answer, Refusal):
                return answer
            models.append(model_pb2.GetModelResponse.FromString(answer).model)
        return model_pb2.ListModelsResponse(models=models, next_page_token=token).SerializeToString()


def serialise(request: Message, max_bytes: int) -> bytes:
    """Raises InvalidArgument for a request that our own server would not have read: Ray's proxy takes larger ones."""
    raw = request.SerializeToString()
    if len(raw) > max_bytes:
        message = f"the request has {len(raw)} bytes, and this server takes {max_bytes}; send fewer texts at once"
        raise InvalidArgument("", message, "REQUEST_TOO_LARGE")
    return raw


def _refusal(error: Exception, method: MethodDescriptor, call_id: str) -> Refusal:
    refusal = Refusal.of(error, call_id)
    if refusal.code is grpc.StatusCode.INTERNAL:
        # Ray writes the log, and the error's own words may quote a text.
        logger.error("%s failed, request_id=%s\n%s", method.name, call_id, frames(error))
    return refusal


def _send(reply: bytes | Refusal, context: RayServegRPCContext, call_id: str) -> Serialised:
    """Put what ends the call into the context, which Ray carries to its proxy with each message."""
    if isinstance(reply, Refusal):
        context.set_code(reply.code)
        context.set_details(reply.details)
        metadata: list[Any] = list(reply.trailing_metadata)
        context.set_trailing_metadata(metadata)
        return NOTHING
    context.set_trailing_metadata([(REQUEST_ID, call_id)])
    return Serialised(reply)


def _unary(method: MethodDescriptor) -> Any:
    async def call(self: Ingress, request: Message, grpc_context: RayServegRPCContext) -> Serialised:
        return await self.answer(method, request, grpc_context)

    return call


def _streaming(method: MethodDescriptor) -> Any:
    async def call(self: Ingress, request: Message, grpc_context: RayServegRPCContext) -> AsyncGenerator[Serialised, None]:
        async with aclosing(self.answers(method, request, grpc_context)) as replies:
            async for reply in replies:
                yield reply

    return call


for _method in methods():
    setattr(Ingress, _method.name, _streaming(_method) if _method.server_streaming else _unary(_method))
