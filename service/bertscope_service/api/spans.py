"""Checks of the marked parts of texts, and of the names they are listed under."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from bertscope.v1 import common_pb2
from bertscope.v1.representation_probe_application_pb2 import ProbedSpan
from bertscope.v1.representation_probes_pb2 import LabelledSpan

from bertscope_service import cancellation
from bertscope_service.analyses.words import Span
from bertscope_service.api.limits import MAX_NAME_CHARACTERS
from bertscope_service.errors import InvalidArgument


def check_names(names: Sequence[str], field: str) -> None:
    """Checks that no name is empty, longer than MAX_NAME_CHARACTERS or listed twice."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if not name or name.isspace():
            raise InvalidArgument(f"{field}[{index}]", f"{field}[{index}] is empty; name it", "EMPTY_NAME")
        if len(name) > MAX_NAME_CHARACTERS:
            message = f"{field}[{index}] has {len(name)} characters and may have {MAX_NAME_CHARACTERS}; shorten it"
            raise InvalidArgument(f"{field}[{index}]", message, "NAME_TOO_LARGE", limit=MAX_NAME_CHARACTERS)
        if name in seen:
            message = f"{field}[{index}] is listed for the second time; list each once"
            raise InvalidArgument(f"{field}[{index}]", message, "DUPLICATE")
        seen.add(name)


def check_span(span: common_pb2.CharacterSpan, field: str, texts: tuple[str, str | None]) -> Span:
    """Checks that a span has a character and lies in its text. Returns it."""
    cancellation.check()
    text = texts[span.segment] if span.segment < len(texts) else None
    if text is None:
        count = "two texts" if texts[1] is not None else "one text"
        message = f"{field}.segment is {span.segment} and the input has {count}; use 0, or 1 for the second text of a pair"
        raise InvalidArgument(f"{field}.segment", message, "SEGMENT_OUT_OF_RANGE")
    if span.end > len(text):
        message = f"{field}.end is {span.end} and the text has {len(text)} code points; count code points, not bytes"
        raise InvalidArgument(f"{field}.end", message, "SPAN_OUT_OF_RANGE")
    if span.start >= span.end:
        message = f"{field} goes from {span.start} to {span.end}, which is empty; end is one past the last code point"
        raise InvalidArgument(field, message, "EMPTY_SPAN")
    return Span(span.start, span.end, span.segment)


def check_apart(spans: Sequence[Span], field: str) -> None:
    """Checks that no two parts share a character."""
    order = sorted(range(len(spans)), key=lambda index: (spans[index].segment, spans[index].start))
    for before, after in pairwise(order):
        if spans[before].segment == spans[after].segment and spans[after].start < spans[before].end:
            message = f"{field}[{after}] begins before {field}[{before}] ends; join them, or let them not overlap"
            raise InvalidArgument(f"{field}[{after}]", message, "SPANS_OVERLAP")


def check_others(
    spans: Iterable[LabelledSpan | ProbedSpan],
    field: str,
    given: tuple[str, str | None],
    first: str,
    *,
    pairs: bool,
) -> list[Span]:
    """Returns the second spans of a text's pairs; none unless `pairs`. Raises InvalidArgument for a span that has one and
    should not, or the other way round. `first` names the field whose first span decides."""
    others: list[Span] = []
    for index, entry in enumerate(spans):
        place = f"{field}[{index}].other"
        if entry.HasField("other") != pairs:
            there = "missing" if pairs else "set"
            message = f"{place} is {there}, unlike that of {first}'s first span; give all spans a second one, or none"
            raise InvalidArgument(place, message, "PAIRS_MIXED")
        if pairs:
            others.append(check_span(entry.other, place, given))
    return others
