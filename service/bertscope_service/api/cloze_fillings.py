"""Joint fillings of masks, by FillMask."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from bertscope.v1 import cloze_pb2

from bertscope_service.analyses.decoding import Decoding
from bertscope_service.analyses.fillings import FilledMasks, FillingPlan, FillingQuery
from bertscope_service.api.checks import check_top_k
from bertscope_service.api.cloze_candidates import GivenWords
from bertscope_service.api.cloze_pairs import read_text_pairs, require_for_masks, require_heads
from bertscope_service.api.enums import members
from bertscope_service.api.field_checks import FILL_MASK_BEAM_WIDTH, FILL_MASK_MAX_PIECES
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

INDEPENDENT = (cloze_pb2.MASK_DECODING_UNSPECIFIED, cloze_pb2.MASK_DECODING_INDEPENDENT)
JOINT: dict[int, Decoding] = members(Decoding, cloze_pb2.MaskDecoding, "MASK_DECODING_")


def asks_for_fillings(request: cloze_pb2.FillMaskRequest) -> bool:
    """Returns whether masks are to be filled jointly, or the request has a field that is only for that."""
    return request.decoding not in INDEPENDENT or request.HasField("max_pieces") or request.HasField("beam_width")


def plan_fillings(request: cloze_pb2.FillMaskRequest, model: LoadedModel, limits: RequestLimits) -> FillingPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that can't fill masks."""
    require_heads(request, model)
    plan = FillingPlan(parse_fillings(request, model.encoder.shape, limits), model.tokenizer)
    require_for_masks(plan.masks, model)
    return plan


def parse_fillings(request: cloze_pb2.FillMaskRequest, shape: Shape, limits: RequestLimits) -> FillingQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    decoding = _decoding(request)
    given = [field for field in GivenWords._fields if getattr(request, field)]
    if given:
        message = f"{given[0]} are scored at each mask alone; leave decoding, beam_width and max_pieces out, or these"
        raise InvalidArgument(given[0], message, "CANDIDATES_WITH_DECODING")
    if request.logits:
        message = "a filling has no logits; leave logits out, or decoding, beam_width and max_pieces"
        raise InvalidArgument("logits", message, "LOGITS_WITH_DECODING")
    width = 1
    if decoding is Decoding.BEAM:
        width = request.beam_width if request.HasField("beam_width") else FILL_MASK_BEAM_WIDTH
    elif request.HasField("beam_width"):
        message = "beam_width is for MASK_DECODING_BEAM alone; leave it out, or set that decoding"
        raise InvalidArgument("beam_width", message, "BEAM_WIDTH_UNUSED")
    size = shape.vocabulary_size
    top_k = check_top_k(request, size)
    return FillingQuery(
        tuple(request.texts),
        decoding,
        top_k,
        min(width, size),
        request.max_pieces if request.HasField("max_pieces") else FILL_MASK_MAX_PIECES,
        request.truncate,
        limits.tokens,
        read_text_pairs(request),
        request.next_sentence,
    )


def _decoding(request: cloze_pb2.FillMaskRequest) -> Decoding:
    number = request.decoding
    if number == cloze_pb2.MASK_DECODING_UNSPECIFIED and request.HasField("max_pieces"):
        return Decoding.BEAM
    if number in INDEPENDENT:
        if request.HasField("max_pieces"):
            message = "masks for several pieces are filled jointly; leave max_pieces out, or choose another decoding"
            raise InvalidArgument("max_pieces", message, "MAX_PIECES_WITH_INDEPENDENT")
        message = "beam_width is for MASK_DECODING_BEAM alone; leave it out, or set that decoding"
        raise InvalidArgument("beam_width", message, "BEAM_WIDTH_UNUSED")
    return JOINT[number]


def render_fillings(plan: FillingPlan, first: Sequence[Any], model: LoadedModel) -> cloze_pb2.FillMaskResponse:
    response = cloze_pb2.FillMaskResponse(provenance=render_provenance(model))
    follows = plan.next_sentence(first) or repeat(None)
    for text, masks, fillings, probability_next in zip(plan.texts, plan.masks, plan.answer(), follows, strict=False):
        rendered = response.results.add(
            tokens=len(text), truncated_tokens=text.truncated, next_sentence_probability=probability_next
        )
        for position in masks:
            start, end = text.span(position)
            rendered.masks.add(token_index=position, start=start, end=end, segment=text.segment(position))
        rendered.fillings.extend(_filling(filling, model.tokenizer) for filling in fillings)
    return response


def _filling(filling: FilledMasks, tokenizer: TextTokenizer) -> cloze_pb2.Filling:
    spans = [
        cloze_pb2.FilledSpan(
            token=span.name,
            pieces=map(tokenizer.piece, span.ids),
            piece_ids=span.ids,
            log_probabilities=span.logs,
            steps=span.steps,
            text=span.written.text,
            removed_blanks=span.written.removed_blanks,
        )
        for span in filling.spans
    ]
    log, mean = filling.log_probability, filling.mean_log_probability
    return cloze_pb2.Filling(spans=spans, log_probability=log, mean_log_probability=mean)
