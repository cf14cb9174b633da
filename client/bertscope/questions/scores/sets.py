"""Sets of texts of which one is right, as they are asked about: minimal pairs, and larger sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bertscope.errors import invalid_argument
from bertscope.questions.scores.inputs import ScoredInput, ToScore, scored_input, sections_of, to_score
from bertscope.rpc.sections import EAGER_TEXTS
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.messages import Asked, asked, with_items

__all__ = ["TextSet"]

WORD = re.compile(r"\S+")


@record
class TextSet:
    """Texts of which one is right, and the groups that the set counts for.

    >>> TextSet(["The keys are old.", "The keys is old."], groups=["agreement"]).right
    0
    """

    texts: Sequence[ToScore]
    """2 to 100 texts, pairs, or texts with parts to score."""
    right: int = 0
    """Index of the right one."""
    groups: str | Iterable[str] = ()
    """Names of groups, such as its paradigm and its field."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        texts = validation.many("texts", self.texts, "texts")
        object.__setattr__(self, "texts", tuple(to_score(f"texts[{index}]", text) for index, text in enumerate(texts)))
        object.__setattr__(self, "right", validation.uint32("right", self.right))
        object.__setattr__(self, "groups", tuple(validation.texts("groups", self.groups)))

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of its groups."""
        return tuple(self.groups)

    def critical_regions(self) -> TextSet:
        """Returns the set with, of each text, only the words scored that differ between the texts, given the rest.

        >>> TextSet(["The keys are old.", "The keys is old."]).critical_regions().texts[1].parts
        (Span(start=9, end=11, segment=0),)

        The region is between the first words and the last ones that all texts have in common; if a text has no word there, all
        take the following word, too. Raises InvalidArgument for pairs of texts, and for texts that already have parts.
        """
        return TextSet(_regions(self.texts), self.right, self.groups)


ToCompare = TextSet | tuple[ToScore, ToScore]
"""A set, or a minimal pair (good, bad)."""


class AskedSet(NamedTuple):
    """A set with its message and its estimated work."""

    given: TextSet
    message: scores_pb2.TextSet
    work: float


def _regions(texts: Sequence[ToScore]) -> list[ScoredInput]:
    plain = [text for text in texts if isinstance(text, str)]
    if len(plain) < len(texts):
        raise invalid_argument("texts", "have no critical region unless they are single texts without parts")
    words = [[found.span() for found in WORD.finditer(text)] for text in plain]
    spelled = [[text[start:end] for start, end in spans] for text, spans in zip(plain, words, strict=True)]
    shortest = min(map(len, spelled))
    first = _common(spelled, shortest)
    last = _common([each[::-1] for each in spelled], shortest - first)
    if first + last == shortest:  # A text has no word of its own.
        first, last = (first, last - 1) if last else (max(0, first - 1), last)
    return [
        ScoredInput(text, [(spans[first][0], spans[len(spans) - last - 1][1])] if spans else ())
        for text, spans in zip(plain, words, strict=True)
    ]


def _common(sequences: Sequence[Sequence[str]], most: int) -> int:
    """Returns how many first words all sequences have in common, `most` at most."""
    columns = zip(*sequences, strict=False)
    return next((index for index, column in enumerate(columns) if index == most or len(set(column)) > 1), most)


def text_set(field: str, value: object) -> TextSet:
    """Returns a set, or a minimal pair as one."""
    if isinstance(value, TextSet):
        return value
    good, bad = validation.pair(field, value, "(good, bad), or a TextSet")
    return TextSet((to_score(f"{field}.good", good), to_score(f"{field}.bad", bad)))


def asked_sets(sets: ToCompare | Iterable[ToCompare], *, critical_region: bool) -> Asked[AskedSet]:
    """Returns any number of sets. A short list is checked at once, all else as it is read."""
    regions = validation.flag("critical_region", critical_region)
    if isinstance(sets, TextSet) or (isinstance(sets, tuple) and any(isinstance(part, (str, ScoredInput)) for part in sets)):
        sets = [sets]  # a tuple with a text in it is one pair
    many = validation.many("sets", sets, "sets")
    return asked(many, _asked(many, regions=regions), most=EAGER_TEXTS)


def set_work(one: AskedSet) -> float:
    """Returns the estimated work of a set."""
    return one.work


def with_sets(request: scores_pb2.CompareTextsRequest, sets: Iterable[AskedSet]) -> scores_pb2.CompareTextsRequest:
    """Returns the request about some sets."""
    return with_items(request, "sets", [one.message for one in sets])


def _asked(sets: Iterable[object], *, regions: bool) -> Iterator[AskedSet]:
    for index, value in enumerate(sets):
        given = text_set(f"sets[{index}]", value)
        scored = given.critical_regions() if regions else given
        message = scores_pb2.TextSet(
            texts=map(scored_input, scored.texts), right=scored.right, groups=dict.fromkeys(scored.group_names)
        )
        work = sum(section.work for text in scored.texts for section in sections_of(0, text))
        yield AskedSet(given, message, work)
