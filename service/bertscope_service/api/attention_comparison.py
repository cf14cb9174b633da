"""CompareAttention of the AttentionService."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bertscope.v1 import attention_statistics_pb2 as statistics_pb2

from bertscope_service.analyses.attention_comparison import ComparisonPlan, ComparisonQuery, Group, Side
from bertscope_service.analyses.observers.map_comparison import KeptMaps, MapDifferences
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.attention_description import render_statistics, render_sums
from bertscope_service.api.checks import read_texts
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State
from bertscope_service.engine.rows import Priority, Row
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel


async def compare_attention(
    backend: Backend, request: statistics_pb2.CompareAttentionRequest, context: Context
) -> statistics_pb2.CompareAttentionResponse:
    """Runs both models on groups of texts in turn, the first one untouched, the second one under the interventions."""
    with backend.registry.use(request.model) as model, backend.registry.use(request.other_model or request.model) as other:
        first, second = Call.of(backend, model, context), Call.of(backend, other, context)
        plan, edits = await second.prepare(request, partial(plan_comparison, model))
        found: list[list[MapDifferences]] = []
        for number, group in enumerate(plan.groups):
            found += await _compare(plan, group, first, second, edits, admitted=number > 0)
        render = partial(render_comparison, plan, found, model, other)
        return await second.compute(render, priority=Priority.INTERACTIVE)


async def _compare(
    plan: ComparisonPlan, group: Group, first: Call, second: Call, edits: Edits | None, *, admitted: bool
) -> list[list[MapDifferences]]:
    """Returns the differences of each text of a group, step by step. `admitted`: a full queue can't reject it."""
    states: list[tuple[State | None, State | None]] = [(None, None)] * len(group.texts)
    found: list[list[MapDifferences]] = [[] for _ in group.texts]
    for start, stop in group.steps:
        one, another = first.model.encoder, second.model.encoder
        before = zip(group.texts, states, strict=True)
        rows = [Row(one, plan.texts[text].sequence, plan.keep(start, stop), None, state) for text, (state, _) in before]
        kept: Sequence[KeptMaps] = await first.run(rows, admitted=admitted or start > 0)
        rows = [
            Row(another, plan.others[text].sequence, plan.compare(text, start, stop, maps), edits, state)
            for text, maps, (_, state) in zip(group.texts, kept, states, strict=True)
        ]
        differences: Sequence[MapDifferences] = await second.run(rows, admitted=True)
        states = [(maps.state, step.state) for maps, step in zip(kept, differences, strict=True)]
        for steps, step in zip(found, differences, strict=True):
            steps.append(step)
    return found


def plan_comparison(
    first: LoadedModel, request: statistics_pb2.CompareAttentionRequest, second: LoadedModel, limits: RequestLimits
) -> ComparisonPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model whose attention can't be observed."""
    require_observable(first)
    require_observable(second)
    if first is second and not request.interventions:
        message = f"{first.name} is compared with itself; name another model in other_model, or send interventions"
        raise InvalidArgument("other_model", message, "NOTHING_TO_COMPARE")
    query = ComparisonQuery(read_texts(request.inputs), tuple(request.punctuation), request.truncate)
    sides = (Side(model.name, model.tokenizer, model.encoder.shape) for model in (first, second))
    return ComparisonPlan(query, *sides)


def render_comparison(
    plan: ComparisonPlan, found: Sequence[Sequence[MapDifferences]], first: LoadedModel, second: LoadedModel
) -> statistics_pb2.CompareAttentionResponse:
    total = plan.total(found)
    return statistics_pb2.CompareAttentionResponse(
        layers=plan.shape.layers,
        heads=plan.shape.heads,
        texts=len(plan.texts),
        tokens=plan.tokens,
        truncated_texts=plan.truncated_texts,
        cosine=render_sums(total.cosine),
        divergence=render_sums(total.divergence),
        differences=render_statistics(total.differences),
        provenance=render_provenance(first),
        other_provenance=render_provenance(second),
    )
