"""CompareRepresentations of the RepresentationService."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bertscope.v1 import representation_geometry_pb2 as geometry_pb2

from bertscope_service.analyses.representation_comparison import RepresentationPlan, RepresentationQuery, SimilaritySums
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import check_numbers, read_texts
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_states
from bertscope_service.encoders.edits import Edits
from bertscope_service.engine.rows import Priority, Row
from bertscope_service.models.loaded import LoadedModel


async def compare_representations(
    backend: Backend, request: geometry_pb2.CompareRepresentationsRequest, context: Context
) -> geometry_pb2.CompareRepresentationsResponse:
    """Runs both models on groups of texts in turn, the first one untouched, the second one under the interventions; one model
    without interventions runs once."""
    with backend.registry.use(request.model) as model, backend.registry.use(request.other_model or request.model) as other:
        first, second = Call.of(backend, model, context), Call.of(backend, other, context)
        plan, edits = await second.prepare(request, partial(plan_comparison, model))
        total = SimilaritySums.zeros(len(plan.query.layers), len(plan.query.other_layers))
        for number, group in enumerate(plan.groups):
            total += await _compare(plan, group, first, second, edits, admitted=number > 0)
        return render_comparison(plan, total, model, other)


async def _compare(
    plan: RepresentationPlan, group: Sequence[int], first: Call, second: Call, edits: Edits | None, *, admitted: bool
) -> SimilaritySums:
    """Returns the sums over a group of texts. `admitted`: a full queue can't reject it."""
    rows = [Row(first.model.encoder, sequence, observer, None) for sequence, observer in plan.first(group)]
    products = others = await first.run(rows, admitted=admitted)
    if plan.query.twice:
        rows = [Row(second.model.encoder, sequence, observer, edits) for sequence, observer in plan.second(group)]
        others = await second.run(rows, admitted=True)
    return await second.compute(partial(plan.sums, products, others), priority=Priority.INTERACTIVE)


def plan_comparison(
    first: LoadedModel,
    request: geometry_pb2.CompareRepresentationsRequest,
    second: LoadedModel,
    limits: RequestLimits,
) -> RepresentationPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
    require_states(first)
    require_states(second)
    layers, others = (model.encoder.shape.layers + 1 for model in (first, second))
    alike = request.layers if first is second else ()
    query = RepresentationQuery(
        inputs=read_texts(request.inputs),
        layers=check_numbers(request.layers, "layers", "layer", layers, first.name),
        other_layers=check_numbers(request.other_layers or alike, "other_layers", "layer", others, second.name),
        twice=first is not second or bool(request.interventions),
        truncate=request.truncate,
    )
    return RepresentationPlan(query, first.tokenizer, second.tokenizer)


def render_comparison(
    plan: RepresentationPlan, total: SimilaritySums, first: LoadedModel, second: LoadedModel
) -> geometry_pb2.CompareRepresentationsResponse:
    return geometry_pb2.CompareRepresentationsResponse(
        layers=plan.query.layers,
        other_layers=plan.query.other_layers,
        texts=len(plan.texts),
        compared_texts=len(plan.compared),
        compared_words=plan.compared_words,
        tokens=plan.tokens,
        truncated_texts=plan.truncated_texts,
        shared=total.shared.ravel().tolist(),
        own=total.own.tolist(),
        other=total.other.tolist(),
        provenance=render_provenance(first),
        other_provenance=render_provenance(second),
    )
