"""Describes texts with the trees of their words for structural probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.spans import Span, parts
from bertscope.values.validation import TextOrPair

__all__ = ["TreeText", "TreeWord"]


class TreeWord(NamedTuple):
    """A word with its head."""

    head: int | None
    """Number of the head among the text's words, from 1; 0 for the root; None for a word outside the tree."""
    span: tuple[int, int] | tuple[int, int, int] | None
    """Its place, (start, end) or (start, end, segment) in code points; None for a word that is not written out."""
    punctuation: bool = False
    """True leaves the word out of edges and roots."""


@record
class TreeText:
    """A text with the tree of its words.

    >>> TreeText("The cat sleeps.", [(2, (0, 3)), (3, (4, 7)), (0, (8, 14))]).words[2]
    TreeWord(head=0, span=Span(start=8, end=14, segment=0), punctuation=False)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    words: Sequence[TreeWord | tuple[int | None, tuple[int, int] | None]]
    """The words: (head, span) or (head, span, punctuation)."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        given = validation.many("words", self.words, "tuples")
        object.__setattr__(self, "words", tuple(_word(f"words[{index}]", value) for index, value in enumerate(given)))


def _word(field: str, value: object) -> TreeWord:
    head, span, *rest = parts(field, value, (2, 3), "(head, span) or (head, span, punctuation)")
    number = None if head is None else validation.uint32(f"{field}'s head", head)
    punctuation = validation.flag(f"{field}'s punctuation", rest[0]) if rest else False
    if span is None:
        return TreeWord(number, None, punctuation)
    place = parts(f"{field}'s span", span, (2, 3), "(start, end) or (start, end, segment)")
    return TreeWord(number, Span(*(validation.uint32(f"{field}'s span", part) for part in place)), punctuation)
