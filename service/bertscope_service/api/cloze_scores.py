"""ScoreTexts of the ClozeService: checks the texts and the parts to score, renders the scores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from bertscope.v1 import cloze_scores_pb2 as scores_pb2

from bertscope_service.analyses.masked_rows import MaskedRows
from bertscope_service.analyses.observers.predictions import GoldScores
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery, TextScore
from bertscope_service.api.answer import Backend, Call, Context, Read
from bertscope_service.api.checks import read_text
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_cloze
from bertscope_service.api.scoring import SCORING_NUMBERS, SCORINGS
from bertscope_service.api.spans import check_apart, check_span
from bertscope_service.engine.rows import Row
from bertscope_service.models.loaded import LoadedModel


class MaskingPlan(Protocol):
    """A plan whose rows score pieces in their places."""

    @property
    def masked(self) -> MaskedRows:
        """The rows."""

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""


PlanT = TypeVar("PlanT", bound=MaskingPlan)


async def score_texts(
    backend: Backend, request: scores_pb2.ScoreTextsRequest, context: Context
) -> scores_pb2.ScoreTextsResponse:
    """Answers ScoreTexts."""
    with backend.registry.use(request.model) as model:
        call = Call.of(backend, model, context)
        plan, seen = await run_masked(call, request, plan_score_texts)
        return await call.compute(lambda: render_score_texts(plan, seen, model))


async def run_masked(call: Call, request: Any, read: Read[Any, PlanT]) -> tuple[PlanT, list[GoldScores]]:
    """Plans a request and runs its rows behind interactive ones. Returns the plan and the result of each row.

    Rows are built when they may run soon: those of a text of 512 tokens would take as much memory as 262,144 tokens.
    """
    plan, conditions = await call.read(request, read)
    call.backend.reply_memory.hold(call.client, plan.reply_bytes)
    edits = await call.edits(conditions)
    masked, encoder = plan.masked, call.model.encoder

    def row(number: int) -> Row:
        return Row(encoder, masked.sequence(number), masked.observer(number), edits)

    async with aclosing(call.bulk().results(masked.lengths, row)) as results:
        return plan, [seen async for seen in results]


def plan_score_texts(request: scores_pb2.ScoreTextsRequest, model: LoadedModel, limits: RequestLimits) -> ScorePlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that can't fill masks."""
    require_cloze(model)
    return ScorePlan(parse_score_texts(request, limits), model.tokenizer)


def parse_score_texts(request: scores_pb2.ScoreTextsRequest, limits: RequestLimits) -> ScoreQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    inputs = tuple(read_scored(given, f"inputs[{index}]") for index, given in enumerate(request.inputs))
    return ScoreQuery(inputs, SCORINGS[request.scoring], request.truncate, limits.tokens, request.pieces)


def read_scored(given: scores_pb2.ScoredInput, field: str) -> ScoredInput:
    """Returns a text or pair and the parts of it to score. Raises InvalidArgument."""
    texts = read_text(given)
    spans = tuple(check_span(span, f"{field}.spans[{index}]", texts) for index, span in enumerate(given.spans))
    check_apart(spans, f"{field}.spans")
    return ScoredInput(*texts, spans, given.skip_words, given.max_words if given.HasField("max_words") else None, field)


def render_score_texts(plan: ScorePlan, seen: Sequence[GoldScores], model: LoadedModel) -> scores_pb2.ScoreTextsResponse:
    results = [_render_text(plan, index, score) for index, score in enumerate(plan.answer(seen))]
    scoring = SCORING_NUMBERS[plan.query.scoring]
    return scores_pb2.ScoreTextsResponse(results=results, scoring=scoring, provenance=render_provenance(model))


def _render_text(plan: ScorePlan, index: int, score: TextScore) -> scores_pb2.ScoredText:
    tokenized = plan.texts[index]
    rendered = scores_pb2.ScoredText(
        log_likelihood=score.log_likelihood,
        scored_pieces=len(score.logs),
        scored_words=len(plan.words[index]),
        tokens=len(tokenized),
        truncated_tokens=tokenized.truncated,
    )
    if plan.query.pieces:
        for piece, log in zip(plan.scored_pieces(index), score.logs.tolist(), strict=True):
            rendered.pieces.add(
                text=piece.text,
                id=piece.id,
                start=piece.start,
                end=piece.end,
                segment=piece.segment,
                word=piece.word,
                log_probability=log,
            )
    return rendered
