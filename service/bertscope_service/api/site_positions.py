"""Positions of a text in a request."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from bertscope.v1 import site_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.positions import PositionKind, Spans, Where
from bertscope_service.analyses.words import Span
from bertscope_service.api.enums import members
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import InvalidArgument

KINDS = members(PositionKind, site_pb2.Positions.Kind, "KIND_")


@dataclass(frozen=True, slots=True)
class PositionReader:
    """Reads positions in texts of one model."""

    tokenizer: TextTokenizer
    _known: dict[bytes, PositionKind | Spans | NDArray[np.int64]] = field(default_factory=dict)
    """Positions that were read, by their messages: equal ones are read, and found in a text, once."""

    def where(self, positions: site_pb2.Positions, field: str, *, count: int | None = None, key: bool = False) -> Where:
        """Returns the positions of a change, all if they are unset; `count` of them, if that is given. Raises
        InvalidArgument."""
        known = positions.SerializeToString(deterministic=True)
        which = self._known.get(known)
        if which is None:
            which = self._known[known] = _which(positions, field if key else f"{field}.positions")
        return Where(which, self.tokenizer, field, count)


def _which(positions: site_pb2.Positions, path: str) -> PositionKind | Spans | NDArray[np.int64]:
    """Reads positions. Raises InvalidArgument."""
    kind = positions.WhichOneof("which")
    if kind == "tokens":
        numbers = np.array(positions.tokens.tokens, dtype=np.int64)
        if (np.diff(numbers) <= 0).any():
            message = f"{path}.tokens are not in ascending order; sort them"
            raise InvalidArgument(f"{path}.tokens", message, "POSITION_OUT_OF_RANGE")
        return numbers
    if kind == "spans":
        return Spans(read_spans(positions.spans, f"{path}.spans.spans"))
    if kind is None and positions.ByteSize():
        raise InvalidArgument(path, f"{path} is empty; set one of its fields, or leave it out", "EMPTY_POSITIONS")
    return KINDS[positions.kind] if kind else PositionKind.ALL


def read_spans(message: site_pb2.CharacterSpans, field: str) -> tuple[Span, ...]:
    """Returns parts of a text. Raises InvalidArgument for one without a character."""
    for index, span in enumerate(message.spans):
        if span.start >= span.end:
            path = f"{field}[{index}]"
            told = f"{path} goes from {span.start} to {span.end}, which is empty; end is one past the last code point"
            raise InvalidArgument(path, told, "EMPTY_SPAN")
    return tuple(Span(span.start, span.end, span.segment) for span in message.spans)
