"""The ClozeService."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, repeat
from typing import Any

from bertscope.v1 import cloze_facts_pb2, cloze_pb2, cloze_pb2_grpc, cloze_scores_pb2

from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.api.answer import INLINE_CHARACTERS, Backend, Context, answer
from bertscope_service.api.checks import check_top_k
from bertscope_service.api.cloze_candidates import NOTHING_GIVEN, candidate_characters, read_candidates
from bertscope_service.api.cloze_comparison import compare_texts
from bertscope_service.api.cloze_facts import facts_size, plan_facts, render_facts
from bertscope_service.api.cloze_fillings import asks_for_fillings, plan_fillings, render_fillings
from bertscope_service.api.cloze_pairs import read_text_pairs, require_for_masks, require_heads
from bertscope_service.api.cloze_predictions import render_masks
from bertscope_service.api.cloze_scores import score_texts
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.request_memory import request_bytes
from bertscope_service.api.wire import Kept, double, header, number
from bertscope_service.encoders.base import Shape
from bertscope_service.models.loaded import LoadedModel


class ClozeServicer(cloze_pb2_grpc.ClozeServiceServicer):
    """Serves ClozeService: queries masked language models."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def FillMask(  # type: ignore[override]  # the interceptor sends bytes as they are
        self, request: cloze_pb2.FillMaskRequest, context: Context
    ) -> cloze_pb2.FillMaskResponse | bytes:
        if asks_for_fillings(request):
            return await answer(
                self._backend, request, context, plan_fillings, render_fillings, model=request.model, size=_fillings_size
            )
        return await answer(self._backend, request, context, plan_fill_mask, render_fill_mask, model=request.model, size=_size)

    async def ScoreTexts(
        self, request: cloze_scores_pb2.ScoreTextsRequest, context: Context
    ) -> cloze_scores_pb2.ScoreTextsResponse:
        return await score_texts(self._backend, request, context)

    async def CompareTexts(
        self, request: cloze_scores_pb2.CompareTextsRequest, context: Context
    ) -> cloze_scores_pb2.CompareTextsResponse:
        return await compare_texts(self._backend, request, context)

    async def QueryFacts(
        self, request: cloze_facts_pb2.QueryFactsRequest, context: Context
    ) -> cloze_facts_pb2.QueryFactsResponse:
        return await answer(self._backend, request, context, plan_facts, render_facts, model=request.model, size=facts_size)


def _fillings_size(request: cloze_pb2.FillMaskRequest) -> int:
    """Returns how many characters are read, or more than are read on the loop: a short text may have thousands of fillings."""
    return request_bytes(request) if request.max_pieces <= 1 else INLINE_CHARACTERS + 1


def _size(request: cloze_pb2.FillMaskRequest) -> int:
    """Returns how many characters are read: every text tokenizes the candidates."""
    return sum(map(len, (*request.texts, *request.text_pairs))) + len(request.texts) * candidate_characters(request)


def plan_fill_mask(request: cloze_pb2.FillMaskRequest, model: LoadedModel, limits: RequestLimits) -> ClozePlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that can't fill masks."""
    require_heads(request, model)
    plan = ClozePlan(parse_fill_mask(request, model.encoder.shape, limits), model.tokenizer)
    require_for_masks(plan.masks, model)
    return plan


def parse_fill_mask(request: cloze_pb2.FillMaskRequest, shape: Shape, limits: RequestLimits) -> ClozeQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    given = read_candidates(request, shape.vocabulary_size)
    top_k = check_top_k(request, shape.vocabulary_size) if given is NOTHING_GIVEN else 0
    return ClozeQuery(
        tuple(request.texts),
        top_k,
        given.candidates,
        request.truncate,
        limits.tokens,
        given.text_candidates,
        given.piece_ids,
        request.logits,
        read_text_pairs(request),
        request.next_sentence,
    )


def render_fill_mask(plan: ClozePlan, results: Sequence[Any], model: LoadedModel) -> bytes:
    """Renders a FillMaskResponse, as bytes."""
    answer = plan.answer(results)
    masks = render_masks(list(chain.from_iterable(answer)), model.tokenizer)
    follows = plan.next_sentence(results) or repeat(None)
    parts = list[bytes]()
    for text, sequence, truncated, follow in zip(answer, plan.texts.sequences, plan.texts.truncated, follows, strict=False):
        own = [part for mask in islice(masks, len(text)) for part in (_MASK[len(mask)], mask)]
        own += _TOKENS[len(sequence)], _TRUNCATED[truncated]
        if follow is not None:
            own.append(double(cloze_pb2.FilledText.NEXT_SENTENCE_PROBABILITY_FIELD_NUMBER, follow))
        rendered = b"".join(own)
        parts += _TEXT[len(rendered)], rendered
    parts.append(cloze_pb2.FillMaskResponse(provenance=render_provenance(model)).SerializeToString())
    return b"".join(parts)


_TEXT = Kept(header, cloze_pb2.FillMaskResponse.RESULTS_FIELD_NUMBER)
_MASK = Kept(header, cloze_pb2.FilledText.MASKS_FIELD_NUMBER)
_TOKENS = Kept(number, cloze_pb2.FilledText.TOKENS_FIELD_NUMBER)
_TRUNCATED = Kept(number, cloze_pb2.FilledText.TRUNCATED_TOKENS_FIELD_NUMBER)
