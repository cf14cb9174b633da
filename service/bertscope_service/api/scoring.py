"""Scorings of pseudo-log-likelihood in a request and in a reply."""

from __future__ import annotations

from bertscope.v1 import common_pb2

from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.api.enums import members, numbers

_PREFIX = "PSEUDO_LOG_LIKELIHOOD_"
SCORING_NUMBERS = numbers(Scoring, common_pb2.PseudoLogLikelihood, _PREFIX)
SCORINGS: dict[int, Scoring] = {
    common_pb2.PSEUDO_LOG_LIKELIHOOD_UNSPECIFIED: Scoring.WITHIN_WORD,
    **members(Scoring, common_pb2.PseudoLogLikelihood, _PREFIX),
}
