"""Parts of texts, and positions among the tokens that a model reads, special tokens included, as the caller gives them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, SupportsIndex, get_args

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2, site_pb2
from bertscope.values import validation
from bertscope.values.choices import PositionKind
from bertscope.values.messages import names_of_values

__all__ = ["Span"]


class Span(NamedTuple):
    """A part of a text: code points, as Python counts them."""

    start: int
    """The first."""
    end: int
    """One past the last."""
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""


def span(field: str, value: object) -> Span:
    """Returns a part that was given as a tuple of two or three numbers."""
    found = parts(field, value, (2, 3), "(start, end) or (start, end, segment)")
    return Span(*(validation.uint32(field, part) for part in found))


def parts(field: str, value: object, sizes: tuple[int, ...], wanted: str) -> tuple[Any, ...]:
    """Returns the parts of a tuple or list of one of these sizes."""
    if not isinstance(value, (tuple, list)) or len(value) not in sizes:
        raise invalid_argument(field, f"must be a tuple {wanted}, not {value!r}")
    return tuple(value)


Place = tuple[int, int] | tuple[int, int, int]
"""(start, end) or (start, end, segment), code points."""
Positions = PositionKind | SupportsIndex | Iterable[SupportsIndex] | Iterable[Place]
"""A kind of position, one token's number or several, from 0 and ascending, or parts of the text as tuples."""
Found = PositionKind | tuple[int, ...] | tuple[Span, ...]
"""Positions that were checked."""

KINDS = names_of_values(site_pb2.Positions.Kind.DESCRIPTOR)


def checked_positions(field: str, given: object) -> Found:
    """Returns positions as a kind, a tuple of token numbers, or one of spans. Raises InvalidArgument for others."""
    if isinstance(given, str):
        validation.choice(field, given, KINDS)
        return next(kind for kind in get_args(PositionKind) if kind == given)
    if isinstance(given, Span):
        return (given,)
    if not isinstance(given, Iterable) and hasattr(given, "__index__"):
        return (validation.uint32(field, given),)
    found = [*validation.many(field, given, f"one of {', '.join(KINDS)}, or numbers of tokens, or spans (start, end)")]
    if not found:
        raise invalid_argument(field, "is empty; name at least one position, or leave it out for all tokens")
    if any(isinstance(each, (tuple, list)) for each in found):
        return tuple(span(f"{field}[{index}]", each) for index, each in enumerate(found))
    if isinstance(given, tuple) and len(found) in (2, 3):
        raise invalid_argument(
            field, f"{given} may be tokens or a part of the text; write {found} for tokens, or [{given}] for a part"
        )
    tokens = tuple(validation.uint32(f"{field}[{index}]", each) for index, each in enumerate(found))
    if any(one >= other for one, other in pairwise(tokens)):
        raise invalid_argument(field, "must ascend, and name no token twice; sort them, and the vectors that go with them")
    return tokens


def positions_message(found: Found) -> site_pb2.Positions:
    """Returns the message of positions that were checked."""
    if isinstance(found, str):
        return site_pb2.Positions(kind=KINDS[found])
    spans = [each for each in found if isinstance(each, Span)]
    if spans:
        return site_pb2.Positions(spans=spans_message(spans))
    return site_pb2.Positions(tokens=site_pb2.TokenIndexes(tokens=[each for each in found if isinstance(each, int)]))


def spans_message(spans: Iterable[Span]) -> site_pb2.CharacterSpans:
    """Returns the message of parts of a text."""
    return site_pb2.CharacterSpans(spans=[common_pb2.CharacterSpan(**each._asdict()) for each in spans])


def checked_spans(field: str, given: object) -> tuple[Span, ...]:
    """Returns parts of a text, one or many. Raises InvalidArgument for anything else, and for none."""
    one = isinstance(given, tuple) and len(given) in (2, 3) and all(hasattr(part, "__index__") for part in given)
    parts = [given] if one else [*validation.many(field, given, "spans (start, end)")]
    return tuple(validation.not_empty(field, [span(f"{field}[{index}]", part) for index, part in enumerate(parts)]))
