"""Exact match and F1 of an answer's words, as SQuAD's evaluation defines them (Rajpurkar et al. 2016, section 6.1; 2018)."""

from __future__ import annotations

import re
import string
from collections import Counter

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words_of_answer(text: str) -> tuple[str, ...]:
    """Returns the words that are compared: lower-cased, without ASCII punctuation, without articles."""
    return tuple(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def f1(predicted: tuple[str, ...], gold: tuple[str, ...]) -> float:
    """Returns the harmonic mean of precision and recall of the words; of no words at all, whether both have none."""
    if not predicted or not gold:
        return float(predicted == gold)
    shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * shared / (len(predicted) + len(gold))
