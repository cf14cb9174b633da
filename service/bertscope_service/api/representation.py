"""The RepresentationService."""

from __future__ import annotations

from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.v1 import representation_pb2_grpc

from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.representation_lens import plan_lens, render_lens


class RepresentationServicer(representation_pb2_grpc.RepresentationServiceServicer):
    """Serves RepresentationService: answers questions about the states between layers."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def ReadLayers(self, request: lens_pb2.ReadLayersRequest, context: Context) -> lens_pb2.ReadLayersResponse:
        return await answer(self._backend, request, context, plan_lens, render_lens, model=request.model)
