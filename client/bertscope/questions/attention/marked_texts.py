"""Describes texts with marked words: linked pairs of words, and words with a feature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.spans import Span, parts, span
from bertscope.values.validation import TextOrPair

__all__ = ["FeatureText", "RelationText"]


class WordPair(NamedTuple):
    """A link between two words of a text."""

    relation: str
    """Name of the relation."""
    source: int
    """Index of the first word among the text's words: of a verb and its subject, the verb."""
    target: int
    """Index of the second word: the subject."""


class Mark(NamedTuple):
    """A part of a text that has a feature."""

    feature: str
    """Name of the feature."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""


@record
class RelationText:
    """A text with linked words.

    >>> RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)]).words
    (Span(start=0, end=3, segment=0), Span(start=4, end=7, segment=0), Span(start=8, end=15, segment=0))
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    pairs: Sequence[tuple[str, int, int]]
    """The linked words: (relation, source, target), where source and target are indices of words."""
    words: Sequence[tuple[int, int] | tuple[int, int, int]] | None = None
    """The words in ascending order: (start, end) or (start, end, segment), code points; the parts between white space unless
    given."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        text = validation.text_or_pair("text", self.text)
        given = whitespace_words(text) if self.words is None else self.words
        pairs = (_triple(f"pairs[{index}]", value) for index, value in enumerate(_listed("pairs", self.pairs)))
        words = tuple(span(f"words[{index}]", value) for index, value in enumerate(_listed("words", given)))
        object.__setattr__(self, "pairs", tuple(pairs))
        object.__setattr__(self, "words", words)


@record
class FeatureText:
    """A text with marked words.

    >>> FeatureText("The cat sleeps.", [("noun", 4, 7)]).marks
    (Mark(feature='noun', start=4, end=7, segment=0),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    marks: Sequence[tuple[str, int, int] | tuple[str, int, int, int]]
    """The marked parts: (feature, start, end) or (feature, start, end, segment), code points. All pieces of the vocabulary that
    begin in a part have the feature."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        marks = (_mark(f"marks[{index}]", value) for index, value in enumerate(_listed("marks", self.marks)))
        object.__setattr__(self, "marks", tuple(marks))


def whitespace_words(text: TextOrPair) -> list[Span]:
    """Returns the parts of a text, or of both texts of a pair, between white space."""
    found = []
    for segment, part in enumerate([text] if isinstance(text, str) else text):
        end = 0
        for word in part.split():
            start = part.index(word, end)
            end = start + len(word)
            found.append(Span(start, end, segment))
    return found


def _listed(field: str, values: object) -> Iterable[object]:
    return validation.many(field, values, "tuples")


def _triple(field: str, value: object) -> WordPair:
    name, source, target = parts(field, value, (3,), "(relation, source, target)")
    name = _name(f"{field}'s relation", name)
    return WordPair(name, validation.uint32(f"{field}'s source", source), validation.uint32(f"{field}'s target", target))


def _name(field: str, value: object) -> str:
    name = validation.text(field, value)
    if not name:
        raise invalid_argument(field, "is empty; name it")
    return name


def _mark(field: str, value: object) -> Mark:
    name, *place = parts(field, value, (3, 4), "(feature, start, end) or (feature, start, end, segment)")
    return Mark(_name(f"{field}'s feature", name), *(validation.uint32(field, part) for part in place))
