"""How much one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from bertscope_service.settings import Settings

MAX_CANDIDATE_CHARACTERS = 1000
MAX_ITEMS = 10_000
"""Items of an objective, and reference texts beside them."""
MAX_STEPS = 16
MAX_CORPUS_TEXTS = 100_000
MAX_SETS = 10_000
MAX_ANSWERS = 1000
MIN_RESAMPLES = 100
MAX_RESAMPLES = 100_000
MAX_DRAWS = 100_000_000
"""Items times resamples: more would take seconds for every effect."""
MIN_CONFIDENCE = 0.5
MAX_CONFIDENCE = 0.999


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """From the settings: texts in a request, characters in a text; candidates, and tokens of all texts, in a request."""

    texts: int
    text_characters: int
    candidates: int
    tokens: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.max_texts, settings.max_text_characters, settings.max_candidates, settings.max_request_tokens)
