"""The Open Inference Protocol on the same engine as the other services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import bertscope
from bertscope.inference import open_inference_pb2 as oip

from bertscope_service.analyses.tensors import TensorPlan
from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.inference_metadata import render_config, render_metadata
from bertscope_service.api.inference_requests import VERSION, check_version, model_name, parse_infer
from bertscope_service.api.inference_tensors import MAX_INPUTS, serialize
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.request_memory import request_bytes
from bertscope_service.models.hosted import ModelState
from bertscope_service.models.loaded import LoadedModel

RAW_BYTES, TYPED_BYTES = 32, 2
"""Bytes of token ids that are parsed in the time of a character of text: raw ones, and typed ones, parsed one at a time."""

INLINE_REPLY_BYTES = 1024 * 1024
"""Smaller replies are assembled on the loop, without reading their numbers."""


class InferenceServicer:
    """Serves GRPCInferenceService to clients of KServe and Triton."""

    def __init__(self, backend: Backend, ready: Callable[[], bool]) -> None:
        """Keeps the backend. `ready` returns whether calls would be answered now."""
        self._backend = backend
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
        """Returns the serialised reply."""
        return await answer(
            self._backend,
            request,
            context,
            plan_infer,
            partial(render_infer, request),
            model=model_name(request.model_name),
            size=_size,
            inline_bytes=INLINE_REPLY_BYTES,
        )


def plan_infer(request: oip.ModelInferRequest, model: LoadedModel, limits: RequestLimits) -> TensorPlan:
    """Plans the answer. Raises InvalidArgument, NotFound for another version, Unsupported for outputs that the model does
    not give."""
    check_version(request.model_version, model.name)
    return TensorPlan(parse_infer(request, model, limits), model.tokenizer, model.encoder.shape)


def render_infer(request: oip.ModelInferRequest, plan: TensorPlan, results: Sequence[Any], model: LoadedModel) -> bytes:
    """Returns a serialised ModelInferResponse, with raw contents if the request's were raw."""
    response = oip.ModelInferResponse(model_name=request.model_name, model_version=VERSION, id=request.id)
    return serialize(response, plan.answer(results), raw=bool(request.raw_input_contents))


def _size(request: oip.ModelInferRequest) -> int:
    """Estimates the time to read a request, in characters of text: ids take less time."""
    # Further inputs are never read.
    if any(tensor.datatype == "BYTES" for tensor in request.inputs[:MAX_INPUTS]):
        return request_bytes(request)
    return request_bytes(request) // (RAW_BYTES if request.raw_input_contents else TYPED_BYTES)
