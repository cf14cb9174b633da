"""Words of the generated treebank: how they are spelled, and the classes that go together, from lexicon.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache

from bertscope_workbench.primer.data import shipped

SIBILANTS = ("s", "x", "z", "ch", "sh")
CONSONANT_Y = re.compile(r".*[^aeiou]y")
ONE_SHORT_VOWEL = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")
DOUBLED = ("begin", "forget", "admit", "prefer")
"""Longer verbs whose last letter is doubled as that of short ones."""
MASS = "-"
"""A sign in the place of the plural of a noun that has none."""
BE = {"Pres": ("am", "are", "is"), "Past": ("was", "were", "was")}
MODALS = ("will", "can", "must", "might", "should", "would", "could")


@dataclass(frozen=True)
class Noun:
    """A noun of a class."""

    lemma: str
    plural: str
    """Its plural; empty for a mass noun."""
    kind: str
    """Its class."""


@dataclass(frozen=True)
class Verb:
    """A verb in one of its uses."""

    lemma: str
    past: str
    participle: str
    roles: tuple[str, ...] = ()
    """Roles of its subject, its object and its recipient."""
    subjects: tuple[str, ...] = ()
    """Classes of its subject, each "class" or "class:noun"."""
    objects: tuple[str, ...] = ()
    """Classes of its object."""

    @property
    def gerund(self) -> str:
        """The form that ends with "ing"."""
        if self.lemma.endswith("ie"):
            return self.lemma[:-2] + "ying"
        if self.lemma.endswith("e") and not self.lemma.endswith(("ee", "ye", "oe")) and self.lemma != "be":
            return self.lemma[:-1] + "ing"
        return _doubled(self.lemma) + "ing"

    def finite(self, tense: str, person: int = 3, plural: bool = False) -> str:
        """Returns the form that agrees with a subject; "Pres" or "Past"."""
        if self.lemma in MODALS:
            return self.lemma
        if self.lemma == "be":
            return BE[tense][1 if plural or person == 2 else 0 if person == 1 else 2]
        if tense == "Past":
            return self.past
        if plural or person != 3:
            return self.lemma
        return "has" if self.lemma == "have" else _with_s(self.lemma) if self.lemma not in ("do", "go") else self.lemma + "es"


BE_VERB, HAVE, DO = Verb("be", "was", "been"), Verb("have", "had", "had"), Verb("do", "did", "done")


@dataclass(frozen=True)
class Lexicon:
    """All words, by what they can do."""

    nouns: dict[str, tuple[Noun, ...]]
    """Nouns of each class."""
    adjectives: dict[str, tuple[str, ...]]
    """Adjectives that nouns of a class may have."""
    verbs: dict[str, tuple[Verb, ...]]
    """Verbs by what they take: "transitive", "intransitive", "ditransitive", "clausal", "controlled"."""
    lists: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Adverbs, names and prepositions."""


@cache
def lexicon() -> Lexicon:
    """Returns the words of lexicon.toml."""
    read = tomllib.loads(shipped("lexicon.toml").read_text("utf-8"))
    nouns = {kind: tuple(_noun(word, kind) for word in words.split()) for kind, words in read["nouns"].items()}
    nouns["money"] = (Noun("money", "", "money"),)
    verbs = {
        frame: tuple(
            _verb(entry, tuple(roles.split())) for roles, entries in groups.items() for entry in entries["words"].split(";")
        )
        for frame, groups in read["verbs"].items()
    }
    lists = {
        name: {key: tuple(words.split()) for key, words in read[name].items()} for name in ("adverbs", "names", "prepositions")
    }
    return Lexicon(nouns, {kind: tuple(words.split()) for kind, words in read["adjectives"].items()}, verbs, lists)


def article(following: str) -> str:
    """Returns "a" or "an" as the next word wants it."""
    word = following.lower()
    if word.startswith(("hon", "hour")):
        return "an"
    return "an" if word[0] in "aeiou" and not word.startswith(("uni", "use", "eu", "one")) else "a"


def _noun(word: str, kind: str) -> Noun:
    lemma, _, plural = word.partition("/")
    return Noun(lemma, "" if plural == MASS else plural or _with_s(lemma), kind)


def _verb(entry: str, roles: tuple[str, ...]) -> Verb:
    forms, subjects, *objects = (part.split() for part in entry.strip().split("|"))
    lemma, *irregular = forms[0].split("/")
    past, participle = irregular or [_past(lemma)] * 2
    return Verb(lemma, past, participle, roles, tuple(subjects), tuple(objects[0]) if objects else ())


def _with_s(word: str) -> str:
    if CONSONANT_Y.fullmatch(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(SIBILANTS) else "s")


def _past(lemma: str) -> str:
    if lemma.endswith("e"):
        return lemma + "d"
    return lemma[:-1] + "ied" if CONSONANT_Y.fullmatch(lemma) else _doubled(lemma) + "ed"


def _doubled(lemma: str) -> str:
    return lemma + lemma[-1] if ONE_SHORT_VOWEL.fullmatch(lemma) or lemma in DOUBLED else lemma
