"""Defines the questions that a study's data become: a choice, a blank, a pair, a fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bertscope._display import short_repr


@dataclass(frozen=True)
class Choice:
    """Words at masks, of which the first must be strictly likelier than all others."""

    __repr__ = short_repr

    options: tuple[tuple[str, str], ...]
    """Each a text with one "[MASK]", and the word at it; the right one first. Texts may be the same."""
    groups: tuple[str, ...] = ()
    """The groups that it counts for."""

    def example(self) -> str:
        """Returns its words."""
        return ", ".join(dict.fromkeys(word for _, word in self.options))


@dataclass(frozen=True)
class Blank:
    """A text with one "[MASK]" and its right answers; the best rank among the whole vocabulary counts."""

    __repr__ = short_repr

    text: str
    answers: tuple[str, ...]
    groups: tuple[str, ...] = ()

    def example(self) -> str:
        """Returns its answers."""
        return ", ".join(self.answers)


@dataclass(frozen=True)
class Pair:
    """Two sentences, of which the first must have the higher pseudo-log-likelihood."""

    __repr__ = short_repr

    good: str
    bad: str
    groups: tuple[str, ...] = ()

    def example(self) -> str:
        """Returns its first sentence."""
        return self.good


Item = Choice | Blank | Pair
KINDS: dict[str, type[Item]] = {"choice": Choice, "blank": Blank, "pair": Pair}
"""Kinds of items by their names in definitions."""


@dataclass
class Skipped:
    """Items that are not asked: their number by reason, with the first of each."""

    __repr__ = short_repr

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        """Notes one."""
        self.counts[reason] += 1
        self.first.setdefault(reason, example)

    def lines(self) -> list[str]:
        """Returns a line for each reason, most frequent first."""
        return [f"{count} skipped: {reason} (first: {self.first[reason]})" for reason, count in self.counts.most_common()]


@dataclass
class Read:
    """The items of a part, and what was not taken from its files."""

    __repr__ = short_repr

    items: list[Item] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)
    files: list[str] = field(default_factory=list)
    """The files, with their numbers of items."""

    def kinds(self) -> Iterator[str]:
        """Yields the names of the kinds that the items are of."""
        for name, kind in KINDS.items():
            if any(isinstance(item, kind) for item in self.items):
                yield name


def words_by_text(items: Iterable[Item]) -> dict[str, list[str]]:
    """Returns the words that are asked at the mask of each text."""
    found: dict[str, dict[str, None]] = {}
    for item in items:
        if isinstance(item, Choice):
            for text, word in item.options:
                found.setdefault(text, {})[word] = None
        elif isinstance(item, Blank):
            found.setdefault(item.text, {}).update(dict.fromkeys(item.answers))
    return {text: list(words) for text, words in found.items()}
