"""Facts to ask a model for: templates, subjects and right objects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bertscope_service.analyses.cloze import MAX_ROW_TOKENS
from bertscope_service.analyses.texts import character_at
from bertscope_service.checkpoints.mask_names import MASK

SUBJECT, OBJECT = "[X]", "[Y]"


class Scoring(Enum):
    """The way objects of several pieces are scored; see bertscope.v1.ObjectScoring."""

    SINGLE_ENTRY = "single_entry"
    CANDIDATES = "candidates"
    LEFT_TO_RIGHT = "left_to_right"
    CONFIDENCE_FIRST = "confidence_first"


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with a place for a subject and one for an object, each exactly once."""

    text: str
    negated: bool = False

    def write(self, subject: str, prime: str | None = None) -> tuple[str, str]:
        """Returns the sentence with a mask for the object, and the character before that mask; see `character_at`. `prime`
        goes before it (Kassner and Schütze 2020)."""
        ahead, behind = self.text.split(OBJECT)
        ahead, behind = (part.replace(SUBJECT, subject) for part in (ahead, behind))
        if prime is not None:
            ahead = f"{prime}? {ahead}"
        return f"{ahead}{MASK}{behind}", character_at(ahead, len(ahead))

    @property
    def subject_first(self) -> bool:
        return self.text.index(SUBJECT) < self.text.index(OBJECT)


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation's templates, and the objects to rank among; no candidates mean the vocabulary of the query."""

    templates: tuple[Template, ...]
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A subject, its right objects, and words that misprime; `relation` is the index of its relation."""

    relation: int
    subject: str
    objects: tuple[str, ...]
    primes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactQuery:
    """A QueryFacts request, checked. An empty vocabulary means the model's own, of `entries` entries; `max_pieces` is for
    scorings that decode."""

    relations: tuple[Relation, ...]
    facts: tuple[Fact, ...]
    entries: int
    vocabulary: tuple[str, ...] = ()
    scoring: Scoring = Scoring.SINGLE_ENTRY
    top_k: int = 1
    prior: bool = False
    max_pieces: int = 1
    max_row_tokens: int = MAX_ROW_TOKENS
