"""The request of AttributeWords."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.questions.attribution.inputs import Section
from bertscope.v1 import attribution_pb2
from bertscope.values.messages import with_items

Request = attribution_pb2.AttributeWordsRequest


def with_sections(request: Request, sections: Sequence[Section]) -> Request:
    """Returns the request about some sections, which have the same pairs."""
    found = with_items(request, "inputs", [section.message for section in sections])
    pairs = sections[0].pairs if sections else None
    if pairs is not None:
        found.first_pair, found.pairs = pairs.start, len(pairs)
    return found
