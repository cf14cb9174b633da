"""The InspectionService."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from bertscope.v1 import cloze_pb2, common_pb2, inspection_pb2, inspection_pb2_grpc

from bertscope_service.analyses.inspection import Inspection, InspectionPlan
from bertscope_service.analyses.observers.map_views import MapView
from bertscope_service.api.answer import INLINE_REPLY_BYTES, Backend, Call, Context
from bertscope_service.api.cloze_predictions import render_masks
from bertscope_service.api.inspection_requests import FORMATS, plan_inspection
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.tensor_chunks import render_chunks
from bertscope_service.api.tokens import render_piece, render_word
from bertscope_service.engine.rows import Priority, Row
from bertscope_service.models.loaded import LoadedModel

FORMAT_NUMBERS = {kind: number for number, kind in FORMATS.items() if number}


class InspectionServicer(inspection_pb2_grpc.InspectionServiceServicer):
    """Serves InspectionService: predictions, distances and maps of a text from one run."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Inspect(  # type: ignore[override]  # the interceptor sends bytes as they are
        self, request: inspection_pb2.InspectRequest, context: Context
    ) -> AsyncIterator[inspection_pb2.InspectResponse | bytes]:
        with self._backend.registry.use(request.model) as model:
            call = Call.of(self._backend, model, context)
            plan, edits = await call.prepare(request, plan_inspection)
            rows = [Row(model.encoder, sequence, observer, edits) for sequence, observer in plan.rows]
            (scores,) = await call.run(rows)
            found = plan.answer(scores)
            large = plan.reply_bytes - plan.map_bytes > INLINE_REPLY_BYTES
            render = partial(render_header, plan, found, model)
            yield await call.compute(render, large=large, priority=Priority.INTERACTIVE)
            if scores.moved is not None:
                yield inspection_pb2.InspectResponse(distances=render_distances(found))
            for index, cells in enumerate(scores.cells):
                for response in render_chunks(inspection_pb2.InspectionChunk, index, 0, cells):
                    yield response


def render_header(plan: InspectionPlan, found: Inspection, model: LoadedModel) -> inspection_pb2.InspectResponse:
    header = inspection_pb2.InspectionHeader(
        tokens=map(render_piece, plan.pieces),
        words=map(render_word, plan.words),
        truncated_tokens=plan.text.truncated,
        masked_lm=plan.predicts,
        compared=plan.query.compare,
        maps=map(render_view, plan.views),
        device_seconds=found.scores.seconds,
        layers=model.encoder.shape.layers,
        heads=model.encoder.shape.heads,
        provenance=render_provenance(model),
    )
    header.masks.extend(map(cloze_pb2.FilledMask.FromString, render_masks(found.masks, model.tokenizer)))
    header.untouched_masks.extend(map(cloze_pb2.FilledMask.FromString, render_masks(found.untouched_masks, model.tokenizer)))
    return inspection_pb2.InspectResponse(header=header)


def render_view(view: MapView) -> inspection_pb2.InspectedMaps:
    _, rows, columns = view.shape
    return inspection_pb2.InspectedMaps(
        heads=[common_pb2.LayerHeads(layer=layer, heads=heads) for layer, heads in view.heads],
        rows=rows,
        columns=columns,
        cell_size=view.cell,
        row_range=inspection_pb2.UnitRange(start=view.rows.start, end=view.rows.stop),
        column_range=inspection_pb2.UnitRange(start=view.columns.start, end=view.columns.stop),
        format=FORMAT_NUMBERS[view.dtype],
        untouched=view.untouched,
    )


def render_distances(found: Inspection) -> inspection_pb2.InspectionDistances:
    moved, divergence = found.scores.moved, found.scores.divergence
    return inspection_pb2.InspectionDistances(
        moved=None if moved is None else render_matrix(moved),
        divergence=None if divergence is None else render_matrix(divergence),
    )
