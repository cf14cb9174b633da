"""CompareTexts of the ClozeService: checks the sets, renders their scores and counts."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import cloze_scores_pb2 as scores_pb2

from bertscope_service.analyses.observers.predictions import GoldScores
from bertscope_service.analyses.text_sets import ComparedSet, CompareQuery, ComparisonPlan, Counts, Outcome, TextSet
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.cloze_scores import read_scored, run_masked
from bertscope_service.api.enums import numbers
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_cloze
from bertscope_service.api.scoring import SCORING_NUMBERS, SCORINGS
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

OUTCOMES = numbers(Outcome, scores_pb2.ComparedSet.Outcome, "OUTCOME_")


async def compare_texts(
    backend: Backend, request: scores_pb2.CompareTextsRequest, context: Context
) -> scores_pb2.CompareTextsResponse:
    """Answers CompareTexts."""
    with backend.registry.use(request.model) as model:
        call = Call.of(backend, model, context)
        plan, seen = await run_masked(call, request, plan_compare_texts)
        return await call.compute(lambda: render_compare_texts(plan, seen, model))


def plan_compare_texts(request: scores_pb2.CompareTextsRequest, model: LoadedModel, limits: RequestLimits) -> ComparisonPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that can't fill masks."""
    require_cloze(model)
    return ComparisonPlan(parse_compare_texts(request, limits), model.tokenizer)


def parse_compare_texts(request: scores_pb2.CompareTextsRequest, limits: RequestLimits) -> CompareQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    count = sum(len(one.texts) for one in request.sets)
    if count > limits.texts:
        message = f"sets have {count} texts and this server takes {limits.texts}; send them in parts"
        raise InvalidArgument("sets", message, "TOO_MANY_TEXTS", limit=limits.texts)
    sets = tuple(_set(one, f"sets[{index}]") for index, one in enumerate(request.sets))
    return CompareQuery(sets, SCORINGS[request.scoring], request.truncate, limits.tokens)


def _set(one: scores_pb2.TextSet, field: str) -> TextSet:
    if one.right >= len(one.texts):
        message = f"{field}.right is {one.right} and the set has texts 0 to {len(one.texts) - 1}"
        raise InvalidArgument(f"{field}.right", message, "RIGHT_OUT_OF_RANGE")
    for index, text in enumerate(one.texts):
        if text.skip_words or text.HasField("max_words"):
            name = f"{field}.texts[{index}].{'skip_words' if text.skip_words else 'max_words'}"
            message = f"{name} is set; scores of parts are not compared, so leave it out, or mark a region with spans"
            raise InvalidArgument(name, message, "WORDS_OUT_OF_RANGE")
    texts = tuple(read_scored(text, f"{field}.texts[{index}]") for index, text in enumerate(one.texts))
    return TextSet(texts, one.right, tuple(one.groups))


def render_compare_texts(
    plan: ComparisonPlan, seen: Sequence[GoldScores], model: LoadedModel
) -> scores_pb2.CompareTextsResponse:
    compared = plan.answer(seen)
    return scores_pb2.CompareTextsResponse(
        results=map(_render_set, compared),
        counts=map(_render_counts, plan.counts(compared)),
        scoring=SCORING_NUMBERS[plan.query.scoring],
        provenance=render_provenance(model),
    )


def _render_set(compared: ComparedSet) -> scores_pb2.ComparedSet:
    return scores_pb2.ComparedSet(
        log_likelihoods=compared.scores,
        scored_pieces=compared.pieces,
        outcome=OUTCOMES[compared.outcome],
        truncated_tokens=compared.truncated,
    )


def _render_counts(counts: Counts) -> scores_pb2.SetCounts:
    return scores_pb2.SetCounts(
        group=counts.group,
        right=counts.right,
        tied=counts.tied,
        wrong=counts.wrong,
        difference_sum=counts.sum,
        difference_squares=counts.squares,
    )
