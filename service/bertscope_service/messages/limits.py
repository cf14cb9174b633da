"""How much one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CANDIDATES = 1000
MAX_CANDIDATE_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """From the settings: texts in a request, characters in a text."""

    texts: int
    text_characters: int
