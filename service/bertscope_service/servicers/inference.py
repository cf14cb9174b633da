"""The Open Inference Protocol, in front of the same engine as everything else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import bertscope
import grpc
from bertscope.inference import open_inference_pb2 as oip

from bertscope_service.analyses.tensors import TensorPlan
from bertscope_service.engine.rows import Row
from bertscope_service.entry import ModelState
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.common import check_tokens
from bertscope_service.messages.inference import VERSION, check_version, model_name, parse_infer, render_infer
from bertscope_service.messages.inference_metadata import render_config, render_metadata
from bertscope_service.messages.inference_tensors import MAX_INPUTS
from bertscope_service.reply_room import ReplyRoom
from bertscope_service.servicers.base import INLINE_CHARACTERS, Backend, Caller, off_loop

Context = grpc.aio.ServicerContext[Any, Any]

INLINE_RAW_BYTES, INLINE_TYPED_BYTES = 128 * 1024, 8 * 1024
"""Requests of token ids that are smaller than this are read on the loop; typed contents one number at a time."""

INLINE_REPLY_BYTES = 1024 * 1024
"""Replies smaller than this are put together on the loop."""


def add_inference_servicer(servicer: InferenceServicer, server: grpc.aio.Server) -> None:
    """Register a servicer, as the generated function does, but let replies of ModelInfer pass, which are serialised already."""
    service = oip.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    handlers: dict[str, Any] = {}
    for method in service.methods:
        request, reply = (getattr(oip, message.name) for message in (method.input_type, method.output_type))
        write = None if method.name == "ModelInfer" else reply.SerializeToString
        handlers[method.name] = grpc.unary_unary_rpc_method_handler(getattr(servicer, method.name), request.FromString, write)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))


class InferenceServicer:
    """Answers clients of KServe and Triton."""

    def __init__(self, backend: Backend, room: ReplyRoom, ready: Callable[[], bool]) -> None:
        """`ready` says whether calls would be answered now."""
        self._backend = backend
        self._room = room
        self._ready = ready

    async def ServerLive(self, request: oip.ServerLiveRequest, context: Context) -> oip.ServerLiveResponse:
        return oip.ServerLiveResponse(live=True)

    async def ServerReady(self, request: oip.ServerReadyRequest, context: Context) -> oip.ServerReadyResponse:
        return oip.ServerReadyResponse(ready=self._ready())

    async def ModelReady(self, request: oip.ModelReadyRequest, context: Context) -> oip.ModelReadyResponse:
        names = (request.name, f"models/{request.name}")
        found = any(one.spec.name in names and one.state is ModelState.READY for one in self._backend.registry.entries())
        return oip.ModelReadyResponse(ready=found and request.version in ("", VERSION) and self._ready())

    async def ServerMetadata(self, request: oip.ServerMetadataRequest, context: Context) -> oip.ServerMetadataResponse:
        return oip.ServerMetadataResponse(name="bertscope", version=bertscope.__version__, extensions=["model_configuration"])

    async def ModelMetadata(self, request: oip.ModelMetadataRequest, context: Context) -> oip.ModelMetadataResponse:
        with self._backend.registry.use(model_name(request.name)) as model:
            check_version(request.version, model.name)
            return render_metadata(request.name, model)

    async def ModelConfig(self, request: oip.ModelConfigRequest, context: Context) -> oip.ModelConfigResponse:
        with self._backend.registry.use(model_name(request.name)) as model:
            check_version(request.version, model.name)
            return render_config(request.name, model, self._backend.limits.texts)

    async def ModelInfer(self, request: oip.ModelInferRequest, context: Context) -> bytes:
        """The reply is serialised already; see add_inference_servicer."""
        with self._backend.registry.use(model_name(request.model_name)) as model:
            check_version(request.model_version, model.name)
            return await self._infer(request, model, Caller.of(context))

    async def _infer(self, request: oip.ModelInferRequest, model: LoadedModel, caller: Caller) -> bytes:
        plan = await off_loop(partial(self._plan, request, model), large=_is_large(request))
        size = plan.query.reply_bytes
        self._room.hold(caller.client, size)
        rows = [Row(model.encoder, sequence, observer) for sequence, observer in plan.rows]
        results = await caller.run(self._backend.engine, rows)
        return await off_loop(lambda: render_infer(request, plan.answer(results)), large=size > INLINE_REPLY_BYTES)

    def _plan(self, request: oip.ModelInferRequest, model: LoadedModel) -> TensorPlan:
        plan = TensorPlan(parse_infer(request, model, self._backend.limits), model.tokenizer, model.encoder.shape)
        check_tokens((sequence for sequence, _ in plan.rows), "inputs", self._backend.limits)
        return plan


def _is_large(request: oip.ModelInferRequest) -> bool:
    """Whether reading a request would keep the loop from others for longer than it takes to wake a thread."""
    # No more inputs than these are read at all.
    if any(tensor.datatype == "BYTES" for tensor in request.inputs[:MAX_INPUTS]):
        return request.ByteSize() > INLINE_CHARACTERS
    return request.ByteSize() > (INLINE_RAW_BYTES if request.raw_input_contents else INLINE_TYPED_BYTES)
