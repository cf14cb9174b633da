"""The request of ScoreTexts, and its replies, of which the sections of a text are joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bertscope.errors import InvalidReply
from bertscope.questions.scores.inputs import Section, text_of
from bertscope.questions.scores.texts import ScoredPiece, ScoredText
from bertscope.rpc.sections import SectionAssembly
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope.v1 import common_pb2
from bertscope.values.choices import Scoring
from bertscope.values.lazy import made
from bertscope.values.messages import enum_name, provenance
from bertscope.values.results import Provenance


@dataclass(frozen=True)
class SectionScore:
    """The reply about a section of a text."""

    section: Section
    message: scores_pb2.ScoredText
    scoring: Scoring
    provenance: Provenance


def read_sections(sections: Sequence[Section], response: scores_pb2.ScoreTextsResponse) -> list[SectionScore]:
    """Returns the scores of a reply, each with its section."""
    if len(response.results) != len(sections):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(sections)} texts")
    source = provenance(response.provenance)
    scoring: Any = enum_name(common_pb2.PseudoLogLikelihood, response.scoring)
    return [
        SectionScore(section, message, scoring, source) for section, message in zip(sections, response.results, strict=True)
    ]


class Assembly(SectionAssembly[SectionScore, ScoredText]):
    """Joins the scores of the sections of each text."""

    def whole(self, answers: Sequence[SectionScore]) -> ScoredText:
        """Returns the score of a text. Raises InvalidReply if no piece of it was scored."""
        first, messages = answers[0], [score.message for score in answers]
        pieces = sum(message.scored_pieces for message in messages)
        if not pieces:
            raise InvalidReply("the server scored no piece of a text")
        return made(
            ScoredText,
            text=text_of(first.section.given),
            log_likelihood=math.fsum(message.log_likelihood for message in messages),
            scored_pieces=pieces,
            scored_words=sum(message.scored_words for message in messages),
            pieces=tuple(_piece(piece) for message in messages for piece in message.pieces),
            tokens=first.message.tokens,
            truncated_tokens=first.message.truncated_tokens,
            scoring=first.scoring,
            provenance=first.provenance,
        )


def _piece(message: scores_pb2.ScoredPiece) -> ScoredPiece:
    return made(
        ScoredPiece,
        text=message.text,
        id=message.id,
        start=message.start,
        end=message.end,
        segment=message.segment,
        word=message.word,
        log_probability=message.log_probability,
    )
