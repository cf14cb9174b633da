"""Limits of one request."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ANSWERS = 1000
MAX_NAME_CHARACTERS = 1000
MAX_PROBE_TEXTS = 100_000
MAX_PROBE_SPANS = 1_000_000
MAX_HIDDEN_UNITS = 4096
MAX_DRAWS = 100_000_000
"""Maximum of items times resamples: more would take seconds for every effect."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Maximum texts in a request, characters in a text, candidates in a request, and tokens of all its texts."""

    texts: int
    text_characters: int
    candidates: int
    tokens: int
