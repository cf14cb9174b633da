"""Defines an item of masked-word claims: words at masks, of which some must be likelier than others."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.values.display import record

from bertscope_workbench.papers.published.item_kinds import Choice

MASK = "[MASK]"
Asked = tuple[str, str]
"""A text with one mask, and the word at it."""


@record
class Contrast:
    """Words at masks: the logarithms of the probabilities of the right ones must add up to more than those of the wrong ones.

    With one of each it is a choice: between two words at a mask, or between two texts for a word. With two of each, as
    ("a house", "big") and ("a mouse", "small") against ("a house", "small") and ("a mouse", "big"), what a word or a text has
    by itself falls out.
    """

    right: tuple[Asked, ...]
    wrong: tuple[Asked, ...]
    group: str
    """Items of one group are alike, and count as one."""


def choice(text: str, right: str, wrong: str, group: str) -> Contrast:
    """Returns the choice of a word at a mask."""
    return Contrast(((text, right),), ((text, wrong),), group)


def between(right: str, wrong: str, word: str, group: str) -> Contrast:
    """Returns the choice of a text for a word."""
    return Contrast(((right, word),), ((wrong, word),), group)


def crossed(one: str, other: str, words: tuple[str, str], group: str) -> Contrast:
    """Returns the contrast of two texts and two words: the first word belongs to the first text, the second to the second."""
    first, second = words
    return Contrast(((one, first), (other, second)), ((one, second), (other, first)), group)


def of_choices(items: Iterable[Choice], group: str = "") -> list[Contrast]:
    """Returns a study's choices of two words, those of a group if one is named; each item counts by itself."""
    return [
        Contrast(item.options[:1], item.options[1:2], str(number))
        for number, item in enumerate(items)
        if not group or group in item.groups
    ]
