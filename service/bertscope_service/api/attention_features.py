"""ScoreFeatures of the AttentionService: checks the marked parts, renders the scores."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import attention_relations_pb2 as relations_pb2

from bertscope_service.analyses.features import FeaturePlan, FeatureQuery, MarkedText
from bertscope_service.analyses.observers.columns import ColumnScores
from bertscope_service.analyses.words import Span
from bertscope_service.api.attention_description import render_sums
from bertscope_service.api.checks import read_text
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.spans import check_span
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel


def plan_features(request: relations_pb2.ScoreFeaturesRequest, model: LoadedModel, limits: RequestLimits) -> FeaturePlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model whose attention can't be observed."""
    require_observable(model)
    return FeaturePlan(parse_features(request, limits), model.tokenizer, model.encoder.shape)


def parse_features(request: relations_pb2.ScoreFeaturesRequest, limits: RequestLimits) -> FeatureQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    if not (request.features or request.special_tokens):
        raise InvalidArgument("features", "features is empty; name at least one", "EMPTY_NAME")
    texts = tuple(_text(text, f"texts[{index}]", len(request.features)) for index, text in enumerate(request.texts))
    if not request.special_tokens and not any(text.spans for text in texts):
        message = "no text has a marked part, so there is nothing to score; mark one, or set special_tokens"
        raise InvalidArgument("texts", message, "NO_SPAN")
    return FeatureQuery(texts, tuple(request.features), request.special_tokens)


def _text(text: relations_pb2.FeatureText, field: str, features: int) -> MarkedText:
    given = read_text(text.input)
    spans = tuple(_span(marked, f"{field}.spans[{index}]", given, features) for index, marked in enumerate(text.spans))
    return MarkedText(given, spans)


def _span(marked: relations_pb2.MarkedSpan, field: str, given: tuple[str, str | None], features: int) -> tuple[int, Span]:
    if marked.feature >= features:
        message = f"{field}.feature is {marked.feature}; features has {features} entries, counted from 0"
        raise InvalidArgument(f"{field}.feature", message, "FEATURE_OUT_OF_RANGE")
    return marked.feature, check_span(marked.span, f"{field}.span", given)


def render_features(
    plan: FeaturePlan, results: Sequence[ColumnScores], model: LoadedModel
) -> relations_pb2.ScoreFeaturesResponse:
    attention, from_first = plan.answer(results)
    features = [
        relations_pb2.FeatureScores(
            feature=name, attention=render_sums(attention.of(index)), from_first_special=render_sums(from_first.of(index))
        )
        for index, name in enumerate(plan.names)
    ]
    return relations_pb2.ScoreFeaturesResponse(
        layers=plan.shape.layers,
        heads=plan.shape.heads,
        texts=len(plan.texts),
        features=features,
        provenance=render_provenance(model),
    )
