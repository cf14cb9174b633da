"""Replies of AttributeWords, of which the sections of a text are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bertscope.errors import InvalidArgument, InvalidReply
from bertscope.questions.attribution.inputs import PAIRS, Section
from bertscope.questions.attribution.words import WordAttribution
from bertscope.rpc.sections import SectionAssembly
from bertscope.v1 import attribution_pb2
from bertscope.values.merging import numbers
from bertscope.values.messages import enum_name, provenance, read, token
from bertscope.values.tensors import matrix


class SectionAttribution(NamedTuple):
    """The answer about a section of a text."""

    section: Section
    found: WordAttribution


def read_sections(
    request: attribution_pb2.AttributeWordsRequest,
    sections: Sequence[Section],
    response: attribution_pb2.AttributeWordsResponse,
) -> list[SectionAttribution]:
    """Returns the answers of a reply, each with its section. Raises InvalidReply for a reply that breaks the contract."""
    if len(response.results) != len(sections):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(sections)} texts")
    method: Any = _name(attribution_pb2.AttributionMethod, request.method, response.method)
    absent: Any = _name(attribution_pb2.AbsentText, request.absent, response.absent)
    shared = {"method": method, "absent": absent, "provenance": provenance(response.provenance)}
    return [
        SectionAttribution(section, _attribution(request, section, message, shared))
        for section, message in zip(sections, response.results, strict=True)
    ]


class Assembly(SectionAssembly[SectionAttribution, WordAttribution]):
    """Joins the sections of each text: sums over their pairs."""

    def whole(self, answers: Sequence[SectionAttribution]) -> WordAttribution:
        """Returns the attribution of a text. Raises InvalidReply if its sections contradict each other."""
        found = [answer.found for answer in answers]
        if len(found) == 1 or not any(each.pairs for each in found):
            return found[0]
        try:
            return WordAttribution.merge(found)
        except InvalidArgument as error:
            raise InvalidReply(f"the server's answers about parts of a text do not go together: {error}") from error


def _name(enum: Any, asked: int, sent: int) -> str:
    name = enum_name(enum, sent)
    if not sent or (asked and sent != asked):
        raise InvalidReply(f"the server sent {name} and not {enum_name(enum, asked)}; it may be older than this client")
    return name


def _attribution(
    request: attribution_pb2.AttributeWordsRequest,
    section: Section,
    message: attribution_pb2.WordAttribution,
    shared: dict[str, Any],
) -> WordAttribution:
    count, sampled = len(message.units), message.pairs
    pairs = request.pairs if request.HasField("pairs") else PAIRS
    asked = section.pairs or range(request.first_pair, request.first_pair + pairs)
    if sampled not in (0, len(asked)):
        raise InvalidReply(f"the server sampled {sampled} pairs and not {len(asked)}")
    if message.HasField("interactions") != request.interactions:
        raise InvalidReply(f"the server sent {'no ' if request.interactions else ''}interactions")
    interactions = matrix(message.interactions) if request.interactions else None
    if interactions is not None and interactions.shape != (count, count):
        raise InvalidReply(f"the server sent interactions of shape {interactions.shape} for {count} words")
    values = numbers(message.values, (count,), "words")
    if not np.isfinite(values).all():
        raise InvalidReply("the server sent values that are not finite")
    return read(
        WordAttribution,
        message,
        text=section.text,
        target=section.target,
        units=tuple(map(token, message.units)),
        values=values,
        error=message.completeness_error if message.HasField("completeness_error") else None,
        sums=numbers(message.sums, (count if sampled else 0,), "sums"),
        sums_of_squares=numbers(message.sums_of_squares, (count if sampled else 0,), "sums of squares"),
        interactions=interactions,
        sampled=((request.seed, asked.start, sampled),) if sampled else (),
        **shared,
    )
