"""DescribeAttention of the AttentionService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertscope.v1 import attention_statistics_pb2 as statistics_pb2

from bertscope_service.analyses.attention_description import (
    DescriptionPlan,
    DescriptionQuery,
    PatternSums,
    Statistic,
)
from bertscope_service.analyses.attention_patterns import Pattern
from bertscope_service.analyses.head_sums import HeadSums
from bertscope_service.api.attention_quantities import QUANTITY_NUMBERS, read_quantity, require_description, require_quantity
from bertscope_service.api.checks import check_numbers, read_texts
from bertscope_service.api.enums import numbers
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.models.loaded import LoadedModel

STATISTICS: Mapping[Statistic, Any] = numbers(Statistic, statistics_pb2.AttentionStatistic, "ATTENTION_STATISTIC_")
PATTERNS: Mapping[Pattern, Any] = numbers(Pattern, statistics_pb2.AttentionPattern, "ATTENTION_PATTERN_")


def plan_description(
    request: statistics_pb2.DescribeAttentionRequest, model: LoadedModel, limits: RequestLimits
) -> DescriptionPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model whose attention can't be observed."""
    require_observable(model)
    shape = model.encoder.shape
    quantity = read_quantity(request.quantity)
    require_quantity(model, quantity, request)
    require_description(model, quantity)
    query = DescriptionQuery(
        read_texts(request.inputs),
        check_numbers(request.layers, "layers", "layer", shape.layers, model.name),
        tuple(request.punctuation),
        request.head_distances,
        request.truncate,
        quantity,
    )
    return DescriptionPlan(query, model.tokenizer, shape)


def render_description(
    plan: DescriptionPlan, results: Sequence[Any], model: LoadedModel
) -> statistics_pb2.DescribeAttentionResponse:
    found = plan.describe(results)
    distances = None
    if found.distances is not None:
        distances = statistics_pb2.HeadDistances(texts=len(plan.texts), sums=found.distances.ravel().tolist())
    return statistics_pb2.DescribeAttentionResponse(
        layers=plan.query.layers,
        heads=plan.heads,
        texts=len(plan.texts),
        tokens=plan.tokens,
        truncated_texts=plan.truncated_texts,
        statistics=render_statistics(found.statistics),
        patterns=[_render_pattern(pattern, sums) for pattern, sums in found.patterns.items()],
        head_distances=distances,
        provenance=render_provenance(model),
        quantity=QUANTITY_NUMBERS[plan.query.quantity],
    )


def render_statistics(found: Mapping[Statistic, HeadSums]) -> list[statistics_pb2.AttentionStatisticSums]:
    return [
        statistics_pb2.AttentionStatisticSums(statistic=STATISTICS[one], sums=render_sums(sums)) for one, sums in found.items()
    ]


def render_sums(found: HeadSums) -> statistics_pb2.HeadSums:
    return statistics_pb2.HeadSums(texts=found.texts, sums=found.sums.ravel().tolist(), squares=found.squares.ravel().tolist())


def _render_pattern(pattern: Pattern, found: PatternSums) -> statistics_pb2.AttentionPatternSums:
    return statistics_pb2.AttentionPatternSums(
        pattern=PATTERNS[pattern], texts=found.texts.ravel().tolist(), scores=render_sums(found.scores)
    )
