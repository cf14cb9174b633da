"""Rendering of masks and their predictions: bertscope.v1.FilledMask, as bytes.

A call of 256 texts has thousands of predictions. What replies say of a word is serialised once for each model, and the numbers
of all predictions in one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

from bertscope.v1.cloze_pb2 import FilledMask as Filled
from bertscope.v1.cloze_pb2 import Prediction

from bertscope_service.analyses.cloze import FilledMask
from bertscope_service.api.wire import Kept, double, doubles, header, number
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenizer import TextTokenizer

_POSITION, _START = Kept(number, Filled.TOKEN_INDEX_FIELD_NUMBER), Kept(number, Filled.START_FIELD_NUMBER)
_END, _SEGMENT = Kept(number, Filled.END_FIELD_NUMBER), Kept(number, Filled.SEGMENT_FIELD_NUMBER)
_RANK, _PREDICTION = Kept(number, Prediction.RANK_FIELD_NUMBER), Kept(header, Filled.PREDICTIONS_FIELD_NUMBER)


def render_masks(masks: Sequence[FilledMask], tokenizer: TextTokenizer) -> Iterator[bytes]:
    """Renders masks of one answer: each is a serialised FilledMask."""
    numbers, size = _numbers(masks)
    begin = 0
    for mask in masks:
        segment, start, end = mask.place
        parts = [_POSITION[mask.position], _START[start], _END[end]]
        for word, rank, logit in zip(mask.words, mask.ranks, mask.logits or repeat(None), strict=False):
            fixed, rank_field = word.message or _fixed(word, tokenizer), _RANK[rank]
            logit_field = b"" if logit is None else double(Prediction.LOGIT_FIELD_NUMBER, logit)
            whole = len(fixed) + size + len(rank_field) + len(logit_field)
            parts += _PREDICTION[whole], fixed, numbers[begin : begin + size], rank_field, logit_field
            begin += size
        parts.append(_SEGMENT[segment])
        yield b"".join(parts)


def _fixed(word: Word, tokenizer: TextTokenizer) -> bytes:
    """Returns what predictions of a word have in common, which it keeps."""
    message = Prediction(token=word.text, pieces=map(tokenizer.piece, word.pieces), piece_ids=word.pieces)
    word.message = message.SerializeToString()
    return word.message


def _numbers(masks: Sequence[FilledMask]) -> tuple[bytes, int]:
    """Returns the fields with float64 of all predictions, one after another, and the size of those of one prediction."""
    columns = {
        Prediction.PROBABILITY_FIELD_NUMBER: [mask.probabilities for mask in masks],
        Prediction.LOG_PROBABILITY_FIELD_NUMBER: [mask.logs for mask in masks],
    }
    if shares := [mask.shares for mask in masks if mask.shares is not None]:
        columns[Prediction.CANDIDATE_PROBABILITY_FIELD_NUMBER] = shares
    return doubles(columns)
