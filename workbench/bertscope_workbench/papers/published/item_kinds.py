"""Defines the items that published data become: a choice, a blank, a pair, an association, a fact."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from fnmatch import fnmatch
from pathlib import Path

from bertscope import Fact, FactRelation
from bertscope.values.display import record

Parts = tuple[tuple[int, int], ...]
"""Places in a text, start and end in code points."""


@record
class Choice:
    """Words at masks, of which the first must be strictly likelier than all others."""

    options: tuple[tuple[str, str], ...]
    """Each a text with one "[MASK]", and the word at it; the right one first. Texts may be the same."""
    groups: tuple[str, ...] = ()
    """The groups that it counts for."""

    def example(self) -> str:
        """Returns its words."""
        return ", ".join(dict.fromkeys(word for _, word in self.options))


@record
class Blank:
    """A text with one "[MASK]" and its right answers; the best rank among the whole vocabulary counts."""

    text: str
    answers: tuple[str, ...]
    groups: tuple[str, ...] = ()

    def example(self) -> str:
        """Returns its answers."""
        return ", ".join(self.answers)


@record
class Pair:
    """Two sentences, of which the first must have the higher pseudo-log-likelihood."""

    good: str
    bad: str
    groups: tuple[str, ...] = ()
    parts: tuple[Parts, Parts] = ((), ())
    """The parts of both that are scored; empty ones mean the whole."""

    def example(self) -> str:
        """Returns its first sentence."""
        return self.good


@record
class Association:
    """Three sentences that differ in some words, which are scored by their mean log-probability: a stereotype, the contrary,
    and one that means nothing (StereoSet, Nadeem et al. 2021)."""

    texts: tuple[str, ...]
    parts: tuple[Parts, ...]
    """The parts of each that are scored."""
    groups: tuple[str, ...] = ()

    def example(self) -> str:
        """Returns its first sentence."""
        return self.texts[0]


@record
class Known:
    """A fact in the templates of its relation."""

    fact: Fact
    relation: FactRelation
    groups: tuple[str, ...] = ()

    def example(self) -> str:
        """Returns its subject and its objects."""
        return ", ".join([self.fact.subject, *self.fact.objects])


Item = Choice | Blank | Pair | Association | Known


@record
class Templates:
    """The sentences of a relation."""

    texts: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()


@record(frozen=False)
class Skipped:
    """Items that are not asked: their number by reason, with the first of each."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        """Notes one."""
        self.counts[reason] += 1
        self.first.setdefault(reason, example)

    def lines(self) -> list[str]:
        """Returns a line for each reason, most frequent first."""
        return [f"{count} skipped: {reason} (first: {self.first[reason]})" for reason, count in self.counts.most_common()]


@record(frozen=False)
class Read:
    """The items of a reproduction, and what was not taken from its files."""

    items: list[Item] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)
    files: list[str] = field(default_factory=list)
    """The files, with their numbers of items."""
    folder: Path | None = None
    """The folder of the data; None for data that ship."""
    vocabulary: tuple[str, ...] = ()
    """The words that ranks are among; empty for the whole vocabulary of the model."""
    vocabulary_file: Path | None = None
    """Their file."""
    templates: dict[Path, dict[str, Templates]] = field(default_factory=dict)
    """Templates that were read, by folder and relation."""


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


def within(path: Path, places: Iterable[Path]) -> bool:
    """Returns whether a file is one of some files, or lies in one of some folders."""
    return any(path.resolve().is_relative_to(place.resolve()) for place in places)


def find_files(folder: Path, patterns: tuple[str, ...], own: Iterable[Path] = ()) -> list[Path]:
    """Returns the files of a folder and the folders in it whose paths end like a pattern; the first that fits any counts.
    What a run writes itself, its `own`, is passed over.

    The folder may itself be the first one of a pattern: "mlama1.1" for "mlama*/*/P*.jsonl".
    """
    for pattern in patterns:
        first, _, rest = pattern.partition("/")
        paths = set(folder.rglob(pattern))
        if rest and fnmatch(folder.resolve().name, first):
            paths |= set(folder.glob(rest))
        found = sorted(path for path in paths if path.is_file() and not within(path, own))
        if found:
            return found
    return []
