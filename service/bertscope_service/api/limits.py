"""Limits of one request."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CANDIDATE_CHARACTERS = 1000
MAX_ITEMS = 10_000
"""Maximum number of items of an objective, and of its reference texts."""
MAX_STEPS = 16
MAX_CORPUS_TEXTS = 100_000
MAX_SETS = 10_000
MAX_ANSWERS = 1000
MAX_ANSWER_TOKENS = 512
"""Maximum number of tokens of a span that answers a question."""
MAX_BEST_SPANS = 100
MAX_PUNCTUATION = 100
MAX_NAME_CHARACTERS = 1000
MAX_RELATIONS = 1000
MAX_FEATURES = 1000
MAX_WORDS = 1000
MAX_TEMPLATES = 100
MAX_FACT_CHARACTERS = 1000
"""Maximum number of characters of a template, a subject, an object or a prime."""
MAX_OBJECTS = 1000
MAX_PRIMES = 10
MAX_TYPED_CANDIDATES = 10_000
"""Maximum number of candidates of a relation of facts."""
MAX_VOCABULARY = 100_000
MAX_FACT_PREDICTIONS = 100
MAX_FACT_PIECES = 10
MAX_PAIRS = 10_000
MAX_SPANS = 10_000
MAX_SCORED_SPANS = 1000
MAX_SET_TEXTS = 100
MAX_GROUPS = 16
MAX_PROBE_TEXTS = 100_000
MAX_PROBE_SPANS = 1_000_000
MAX_TREE_WORDS = 512
"""Maximum words of a text with a tree: a probe predicts the distances of all pairs."""
MAX_MAP_VIEWS = 8
MAX_PIXELS = 128
"""Maximum rows and columns of a picture of a map."""
MAX_CLASSES = 1000
MAX_EPOCHS = 1000
MAX_HIDDEN_UNITS = 4096
MAX_SEEDS = 10
MAX_L2 = 1e6
MIN_RESAMPLES = 100
MAX_RESAMPLES = 100_000
MAX_DRAWS = 100_000_000
"""Maximum of items times resamples: more would take seconds for every effect."""
MIN_CONFIDENCE = 0.5
MAX_CONFIDENCE = 0.999


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Maximum texts in a request, characters in a text, candidates in a request, and tokens of all its texts."""

    texts: int
    text_characters: int
    candidates: int
    tokens: int
