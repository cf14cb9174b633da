"""Predictions at a mask: their values and their messages."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import cloze_pb2
from bertscope.values.display import record
from bertscope.values.lazy import made

__all__ = ["FilledMask", "Prediction"]


@record
class Prediction:
    """One way to fill a mask."""

    token: str
    """The word as one would write it; a candidate as it was given."""
    pieces: tuple[str, ...]
    """Its vocabulary entries."""
    piece_ids: tuple[int, ...]
    """Their vocabulary indices."""
    probability: float
    """Among the whole vocabulary, 0 to 1; with several pieces, the product over as many masks."""
    log_probability: float
    """Natural logarithm of the probability."""
    candidate_probability: float | None
    """Share of this candidate among all candidates, 0 to 1; None for top-k predictions."""
    rank: int | None
    """Rank among the whole vocabulary, 1 is the likeliest; None for a candidate of several pieces."""
    logit: float | None = None
    """Score before the softmax; None unless requested, and for a candidate of several pieces."""


@record
class FilledMask:
    """One mask and its predictions."""

    predictions: tuple[Prediction, ...]
    """Likeliest first."""
    start: int
    """First code point of the mask in the text."""
    end: int
    """One past its last code point."""
    token_index: int
    """Position among the tokens that the model read, from 0."""
    segment: int = 0
    """The text of a pair that it is in: 0 is the first, 1 the second."""


def read_mask(message: cloze_pb2.FilledMask) -> FilledMask:
    """Returns a mask and its predictions."""
    predictions = tuple(map(_prediction, messages := message.predictions))
    _read_logits(messages, predictions)
    return FilledMask(
        predictions=predictions,
        start=message.start,
        end=message.end,
        token_index=message.token_index,
        segment=message.segment,
    )


def _prediction(message: cloze_pb2.Prediction) -> Prediction:
    share: float | None = message.candidate_probability
    if not share and not message.HasField("candidate_probability"):
        share = None
    rank: int | None = message.rank
    if not rank and not message.HasField("rank"):
        rank = None
    return made(
        Prediction,
        token=message.token,
        pieces=tuple(message.pieces[:]),  # protobuf copies a slice at once, but iterates item by item
        piece_ids=tuple(message.piece_ids[:]),
        probability=message.probability,
        log_probability=message.log_probability,
        candidate_probability=share,
        rank=rank,
    )


def _read_logits(messages: Sequence[cloze_pb2.Prediction], predictions: Sequence[Prediction]) -> None:
    """Adds the logits, if there are any: all top-k predictions have them or none, and all candidates of one piece."""
    if predictions and (predictions[0].candidate_probability is not None or messages[0].HasField("logit")):
        for message, prediction in zip(messages, predictions, strict=True):
            if message.HasField("logit"):
                prediction.__dict__["logit"] = message.logit
