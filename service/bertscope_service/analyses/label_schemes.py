"""Mentions: the words that labels such as "B-PER" and "I-PER" make one, in the schemes IOB1, IOB2, IOBES and BILOU.

One reading serves all four schemes, that of the CoNLL-2000 evaluation (Tjong Kim Sang and Buchholz 2000): a word goes on with
the mention of the word before it if its label says "inside" or "end", has the same type, and the label before it did not end
the mention. Every other word with a type begins a mention, so that no sequence of labels is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

OUTSIDE = "O"
LABEL = re.compile(r"([BIELSU])(?:-(.+))?", re.DOTALL)
"""A prefix, and a type or none."""


class Scheme(Enum):
    """How the names of labels say which words are one mention; a value is the prefixes that a scheme has."""

    NONE = frozenset[str]()
    IOB = frozenset("BI")
    IOBES = frozenset("BIES")
    BILOU = frozenset("BILU")


class Mention(NamedTuple):
    """Consecutive words that are one. start, stop: numbers of the first word and of the one past the last."""

    type: str
    start: int
    stop: int


def scheme_of(labels: Sequence[str]) -> Scheme:
    """Recognises the scheme of a model's labels: all but "O" need a prefix, some of them "B" or "I"."""
    matches = [LABEL.fullmatch(label) for label in labels if label != OUTSIDE]
    prefixes = {match[1] if match else "" for match in matches}
    if not prefixes & Scheme.IOB.value:
        return Scheme.NONE
    return next((scheme for scheme in Scheme if prefixes <= scheme.value), Scheme.NONE)


def mentions_of(labels: Sequence[str | None]) -> list[Mention]:
    """Returns the mentions of a sequence of words by their labels, None for a word without one, in order.

    >>> mentions_of(["B-PER", "I-PER", "O", "I-LOC"])
    [Mention(type='PER', start=0, stop=2), Mention(type='LOC', start=3, stop=4)]

    The labels are of a scheme other than NONE.
    """
    found: list[Mention] = []
    going: str | None = None
    for number, label in enumerate(labels):
        match = LABEL.fullmatch(label) if label is not None and label != OUTSIDE else None
        if match is None:
            going = None
            continue
        prefix, kind = match[1], match[2] or ""
        if going == kind and prefix in "IEL":
            found[-1] = found[-1]._replace(stop=number + 1)
        else:
            found.append(Mention(kind, number, number + 1))
        going = None if prefix in "ELSU" else kind
    return found
