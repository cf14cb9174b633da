"""Generates English sentences in which one word belongs to one of two others: a verb to its subject beside another noun, and
pronouns to the person they mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from bertscope.values.display import record

T = TypeVar("T")
PLURALS = {
    "author": "authors", "doctor": "doctors", "farmer": "farmers", "teacher": "teachers", "lawyer": "lawyers",
    "driver": "drivers", "singer": "singers", "painter": "painters", "worker": "workers", "student": "students",
    "pilot": "pilots", "soldier": "soldiers", "writer": "writers", "judge": "judges", "guard": "guards", "friend": "friends",
    "neighbor": "neighbors", "player": "players", "officer": "officers", "senator": "senators",
}  # fmt: skip
"""People, one and several."""
PLACES = ("near", "behind", "beside", "opposite")
REPORTS = (("say", "says"), ("think", "thinks"), ("know", "knows"), ("hear", "hears"))
"""Verbs of several and of one."""
ADJECTIVES: tuple[tuple[str, ...], ...] = ((), ("old",), ("old", "quiet"))
ADVERBS: tuple[tuple[str, ...], ...] = ((), ("also",))
"""Words that vary how far both nouns are from the word that belongs to one of them."""
STATES = ("tired", "happy", "young", "famous", "late")
MEN = ("king", "boy", "father", "brother", "uncle", "son", "husband", "prince", "grandfather", "monk", "waiter", "man")
WOMEN = ("queen", "girl", "mother", "sister", "aunt", "daughter", "wife", "princess", "grandmother", "nun", "actress", "woman")
MEETINGS = ("met", "called", "visited", "helped")
REASONS = ("was lonely", "had a question", "wanted to talk", "needed advice")
HURT = ("hurt", "saw", "blamed", "painted")
STEPS = (2, 6)
"""Distances in the lists of men and women, or of people, of those who meet. They are even, so that nobody of every second pair
is in the others: a head is not scored on people that it was chosen on."""


@record
class Pointed:
    """A sentence in which a word belongs to one of two others."""

    words: tuple[str, ...]
    """Its words; a period follows the last one."""
    source: int
    """The number of the word that belongs to another."""
    target: int
    """The number of the word that it belongs to."""
    other: int
    """The number of the word that it could be taken to belong to."""
    wrong: str
    """The form that the source would have if it belonged to the other word."""
    group: str
    """Sentences of a group are alike."""

    @property
    def text(self) -> str:
        """The sentence."""
        return " ".join(self.words).capitalize() + "."

    def start(self, number: int) -> int:
        """Returns the first code point of a word."""
        return sum(len(word) + 1 for word in self.words[:number])

    def masked(self, mask: str) -> str:
        """Returns the sentence with a mask in place of the source."""
        start = self.start(self.source)
        return self.text[:start] + mask + self.text[start + len(self.words[self.source]) :]


def agreement() -> list[Pointed]:
    """Returns 160 sentences whose subject and another noun differ in number, the nearer one to the verb as often as not ("The
    authors near the old guard are tired.", "The guard says the old authors are tired.")."""
    found = []
    for number, (one, other) in enumerate(_pairs([*PLURALS], [*PLURALS])):
        for plural in (True, False):
            subject, noun = (PLURALS[one], other) if plural else (one, PLURALS[other])
            right, wrong = ("are", "is") if plural else ("is", "are")
            report = _nth(REPORTS, number)[plural]
            found += _near_and_far(number, subject, noun, report, (), right, (_nth(STATES, number),), wrong, f"{one} {other}")
    return found


def reflexives() -> list[Pointed]:
    """Returns 96 sentences with a reflexive, whose subject and another person differ in gender, the nearer one as often as not
    ("The king near the old queen hurt himself.", "The queen says the old king hurt himself.")."""
    found = []
    for number, (man, woman) in enumerate(_pairs(MEN, WOMEN)):
        for subject, noun, right, wrong in ((man, woman, "himself", "herself"), (woman, man, "herself", "himself")):
            report = _nth(REPORTS, number)[True]
            found += _near_and_far(number, subject, noun, report, (_nth(HURT, number),), right, (), wrong, f"{man} {woman}")
    return found


def coreference() -> list[Pointed]:
    """Returns 96 sentences with a pronoun for one of two people, the nearer one as often as not ("The king met the queen
    because she was lonely.")."""
    found = []
    for number, (man, woman) in enumerate(_pairs(MEN, WOMEN)):
        for first, second in ((man, woman), (woman, man)):
            for target, person in ((1, first), (4, second)):
                right, wrong = ("he", "she") if person == man else ("she", "he")
                why = _nth(REASONS, number).split()
                words = ("the", first, _nth(MEETINGS, number // len(REASONS)), "the", second, "because", right, *why)
                found.append(Pointed(words, 6, target, 5 - target, wrong, f"{man} {woman}"))
    return found


def _near_and_far(
    number: int, subject: str, noun: str, report: str, verb: tuple[str, ...], source: str, rest: tuple[str, ...], wrong: str,
    group: str,
) -> list[Pointed]:  # fmt: skip
    """Returns a sentence whose subject is the farther of two nouns, and one at the same distances whose subject is nearer."""
    adjectives, adverbs = _nth(ADJECTIVES, number), _nth(ADVERBS, number // len(ADJECTIVES))
    found, nearer = [], 4 + len(adjectives)
    for first, link, second in ((subject, _nth(PLACES, number), noun), (noun, report, subject)):
        before = ("the", first, link, "the", *adjectives, second, *adverbs, *verb)
        target, other = (1, nearer) if first == subject else (nearer, 1)
        found.append(Pointed((*before, source, *rest), len(before), target, other, wrong, group))
    return found


def _pairs(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[str, str]]:
    for step in STEPS:
        for index, one in enumerate(first):
            yield one, second[(index + step) % len(second)]


def _nth(words: Sequence[T], number: int) -> T:
    return words[number % len(words)]
