"""Requests and replies of ClozeService."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bertscope.v1 import cloze_pb2

from bertscope_service.analyses.cloze import ClozeQuery, FilledMask, FilledText, Prediction
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.common import check_text, check_texts, render_provenance
from bertscope_service.messages.limits import MAX_CANDIDATE_CHARACTERS, RequestLimits
from bertscope_service.tokenization import TextTokenizer

DEFAULT_TOP_K = 5


def parse_fill_mask(request: cloze_pb2.FillMaskRequest, shape: Shape, limits: RequestLimits) -> ClozeQuery:
    """Raises InvalidArgument."""
    check_texts(request.texts, "texts", limits)
    texts = tuple(check_text(text, f"texts[{index}]", limits) for index, text in enumerate(request.texts))
    candidates = _candidates(request.candidates, limits)
    if candidates and request.HasField("top_k"):
        raise InvalidArgument("top_k", "top_k and candidates exclude each other; set one of them", "TOP_K_WITH_CANDIDATES")
    top_k = 0 if candidates else request.top_k if request.HasField("top_k") else min(DEFAULT_TOP_K, shape.vocabulary_size)
    if not candidates and not 1 <= top_k <= shape.vocabulary_size:
        message = f"top_k is {top_k}; ask for 1 to {shape.vocabulary_size}, the size of the vocabulary"
        raise InvalidArgument("top_k", message, "TOP_K_OUT_OF_RANGE")
    return ClozeQuery(texts, top_k, candidates, request.truncate, limits.tokens)


def _candidates(candidates: Sequence[str], limits: RequestLimits) -> tuple[str, ...]:
    if len(candidates) > limits.candidates:
        message = f"candidates has {len(candidates)} entries and this server takes {limits.candidates}; ask in parts"
        raise InvalidArgument("candidates", message, "TOO_MANY_CANDIDATES", limit=limits.candidates)
    seen: set[str] = set()
    for index, word in enumerate(candidates):
        if len(word) > MAX_CANDIDATE_CHARACTERS:
            message = f"candidates[{index}] has {len(word)} characters; a candidate may have {MAX_CANDIDATE_CHARACTERS}"
            raise InvalidArgument(f"candidates[{index}]", message, "CANDIDATE_TOO_LARGE")
        check_text(word, f"candidates[{index}]", limits)
        if word in seen:
            message = f"candidates[{index}] stands there twice; list each once"
            raise InvalidArgument(f"candidates[{index}]", message, "DUPLICATE")
        seen.add(word)
    return tuple(candidates)


def render_fill_mask(results: Sequence[FilledText], tokenizer: TextTokenizer, model: LoadedModel) -> cloze_pb2.FillMaskResponse:
    return cloze_pb2.FillMaskResponse(
        results=[
            cloze_pb2.FilledText(
                masks=[_render_mask(mask, tokenizer) for mask in result.masks],
                tokens=result.tokens,
                truncated_tokens=result.truncated,
            )
            for result in results
        ],
        provenance=render_provenance(model),
    )


def _render_mask(mask: FilledMask, tokenizer: TextTokenizer) -> cloze_pb2.FilledMask:
    predictions = [_render_prediction(prediction, tokenizer) for prediction in mask.predictions]
    return cloze_pb2.FilledMask(token_index=mask.token_index, start=mask.start, end=mask.end, predictions=predictions)


def _render_prediction(prediction: Prediction, tokenizer: TextTokenizer) -> cloze_pb2.Prediction:
    return cloze_pb2.Prediction(
        token=prediction.token,
        pieces=[tokenizer.piece(piece) for piece in prediction.piece_ids],
        piece_ids=prediction.piece_ids,
        probability=math.exp(prediction.log_probability),
        log_probability=prediction.log_probability,
        candidate_probability=prediction.candidate_probability,
        rank=prediction.rank,
    )
