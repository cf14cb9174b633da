"""The RepresentationService."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bertscope.v1 import representation_codes_pb2 as codes_pb2
from bertscope.v1 import representation_contexts_pb2 as contexts_pb2
from bertscope.v1 import representation_eraser_pb2 as eraser_pb2
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.v1 import representation_pb2_grpc
from bertscope.v1 import representation_probe_application_pb2 as application_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1 import representation_states_pb2 as states_pb2
from bertscope.v1 import representation_structural_probes_pb2 as structural_pb2
from bertscope.v1 import representation_tuned_lens_pb2 as tuned_pb2

from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.representation_attribution import attribute_logits
from bertscope_service.api.representation_codes import TRAIN_CODES
from bertscope_service.api.representation_comparison import compare_representations
from bertscope_service.api.representation_contexts import find_contexts
from bertscope_service.api.representation_embeddings import plan_embed, render_embed
from bertscope_service.api.representation_erasers import TRAIN_ERASER
from bertscope_service.api.representation_geometry import plan_geometry, render_geometry
from bertscope_service.api.representation_lens import plan_lens, render_lens
from bertscope_service.api.representation_probe_application import plan_application, render_application
from bertscope_service.api.representation_probes import TRAIN_PROBE
from bertscope_service.api.representation_states import STATES, plan_extract_hidden_states
from bertscope_service.api.representation_structural_probes import TRAIN_STRUCTURAL_PROBE
from bertscope_service.api.representation_tuned_lens import TRAIN_LENS
from bertscope_service.api.tensor_streams import stream_tensors
from bertscope_service.api.training import train
from bertscope_service.probing.states import StateSpace


class RepresentationServicer(representation_pb2_grpc.RepresentationServiceServicer):
    """Serves RepresentationService: answers questions about the states between layers.

    A method that streams returns the stream: its caller closes it, so that the work of a client that is gone ends.
    """

    def __init__(self, backend: Backend, memory_bytes: int, space: StateSpace) -> None:
        """Keeps the backend. `memory_bytes`: maximum memory for the states that ablations of one call share. `space`: room for
        the states that probes are trained on."""
        self._backend = backend
        self._memory_bytes = memory_bytes
        self._space = space

    async def AttributeLogits(
        self, request: lens_pb2.AttributeLogitsRequest, context: Context
    ) -> lens_pb2.AttributeLogitsResponse:
        return await attribute_logits(self._backend, request, context, self._memory_bytes)

    def ExtractHiddenStates(  # type: ignore[override]  # the interceptor sends bytes as they are
        self, request: states_pb2.ExtractHiddenStatesRequest, context: Context
    ) -> AsyncIterator[states_pb2.ExtractHiddenStatesResponse | bytes]:
        return stream_tensors(self._backend, request, context, plan_extract_hidden_states, STATES)

    async def EmbedTexts(self, request: states_pb2.EmbedTextsRequest, context: Context) -> states_pb2.EmbedTextsResponse:
        return await answer(self._backend, request, context, plan_embed, render_embed, model=request.model)

    async def DescribeGeometry(
        self, request: geometry_pb2.DescribeGeometryRequest, context: Context
    ) -> geometry_pb2.DescribeGeometryResponse:
        return await answer(
            self._backend, request, context, plan_geometry, render_geometry, model=request.model, inline_bytes=0
        )

    async def CompareRepresentations(
        self, request: geometry_pb2.CompareRepresentationsRequest, context: Context
    ) -> geometry_pb2.CompareRepresentationsResponse:
        return await compare_representations(self._backend, request, context)

    async def ReadLayers(self, request: lens_pb2.ReadLayersRequest, context: Context) -> lens_pb2.ReadLayersResponse:
        return await answer(self._backend, request, context, plan_lens, render_lens, model=request.model)

    def FindContexts(
        self, request: contexts_pb2.FindContextsRequest, context: Context
    ) -> AsyncIterator[contexts_pb2.FindContextsResponse]:
        return find_contexts(request, self._backend, context)

    def TrainProbe(
        self, request: probes_pb2.TrainProbeRequest, context: Context
    ) -> AsyncIterator[probes_pb2.TrainProbeResponse]:
        return train(TRAIN_PROBE, request, self._backend, context, self._space)

    def TrainEraser(
        self, request: eraser_pb2.TrainEraserRequest, context: Context
    ) -> AsyncIterator[eraser_pb2.TrainEraserResponse]:
        return train(TRAIN_ERASER, request, self._backend, context, self._space)

    def TrainStructuralProbe(
        self, request: structural_pb2.TrainStructuralProbeRequest, context: Context
    ) -> AsyncIterator[structural_pb2.TrainStructuralProbeResponse]:
        return train(TRAIN_STRUCTURAL_PROBE, request, self._backend, context, self._space)

    def TrainLens(self, request: tuned_pb2.TrainLensRequest, context: Context) -> AsyncIterator[tuned_pb2.TrainLensResponse]:
        return train(TRAIN_LENS, request, self._backend, context, self._space)

    def TrainCodes(self, request: codes_pb2.TrainCodesRequest, context: Context) -> AsyncIterator[codes_pb2.TrainCodesResponse]:
        return train(TRAIN_CODES, request, self._backend, context, self._space)

    async def ApplyProbe(
        self, request: application_pb2.ApplyProbeRequest, context: Context
    ) -> application_pb2.ApplyProbeResponse:
        return await answer(self._backend, request, context, plan_application, render_application, model=request.model)
