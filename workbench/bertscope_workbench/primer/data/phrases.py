"""Builds the phrases of the generated treebank: nouns and what stands with them, names, places and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from bertscope_workbench.primer.data.words import Lexicon, Noun

T = TypeVar("T")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "ten", "twelve")
PRONOUNS = (
    ("I", "me", 1, False), ("you", "you", 2, False), ("he", "him", 3, False), ("she", "her", 3, False),
    ("we", "us", 1, True), ("they", "them", 3, True),
)  # fmt: skip
"""Subject, object, person, plural."""
OWNERS = ("his", "her", "their", "my", "our", "your")
COMPOUNDS = {
    "furniture": "kitchen hotel school hospital",
    "text": "school city police business",
    "vehicle": "city family company",
}
"""Nouns that may stand before another one, by the class of that."""


@dataclass(eq=False)
class Word:
    """A word of a sentence."""

    form: str
    lemma: str
    upos: str
    deprel: str = "root"
    head: Word | None = None
    feats: str = "_"
    role: str = ""
    """Its semantic role, of the head of an argument."""
    entity: str = ""
    """"B-PERSON" and the like."""
    glued: bool = False
    """True if no blank follows."""

    def under(self, head: Word, deprel: str) -> Word:
        """Returns this word, which now depends on another."""
        self.head, self.deprel = head, deprel
        return self


@dataclass
class Phrase:
    """Words with a head."""

    words: list[Word]
    head: Word
    person: int = 3
    plural: bool = False
    noun: Noun | None = None
    """The noun that it is about, if it is a common one."""
    kind: str = ""
    """The class of what it is about."""

    def under(self, head: Word, deprel: str, role: str = "") -> list[Word]:
        """Returns its words, whose head now depends on another."""
        self.head.under(head, deprel)
        self.head.role = role
        return self.words


class Phrases:
    """Draws phrases of a lexicon."""

    def __init__(self, random: Random, lexicon: Lexicon) -> None:
        self.random = random
        self.lexicon = lexicon

    def chance(self, share: float) -> bool:
        """Returns True in that share of cases."""
        return self.random.random() < share

    def pick(self, options: Sequence[T]) -> T:
        """Returns one of the options."""
        return self.random.choice(options)

    def noun(self, selectors: Sequence[str]) -> Noun:
        """Returns a noun of one of the classes, each "class" or "class:noun"."""
        kind, _, lemma = self.pick(selectors).partition(":")
        return self.pick([noun for noun in self.lexicon.nouns[kind] if lemma in ("", noun.lemma)])

    def argument(self, selectors: Sequence[str], *, subject: bool = False, bare: bool = False) -> Phrase:
        """Returns a noun phrase, a name or a pronoun for an argument of these classes; `bare` without another phrase in it."""
        noun = self.noun(selectors)
        if noun.kind == "person" and self.chance(0.16):
            return self.person_name()
        if noun.kind == "company" and self.chance(0.5):
            return self.name("company", "ORG")
        if noun.kind == "person" and self.chance(0.2 if subject else 0.06):
            return self.pronoun(subject)
        found = self.common(noun, bare=bare)
        if not bare and noun.plural and self.chance(0.08):
            other = self.common(self.noun([noun.kind]), bare=True)
            conj = Word("and", "and", "CCONJ").under(other.head, "cc")
            found = Phrase([*found.words, conj, *other.under(found.head, "conj")], found.head, 3, True, None, noun.kind)
        return found

    def pronoun(self, subject: bool) -> Phrase:
        """Returns a personal pronoun."""
        form, other, person, plural = self.pick(PRONOUNS)
        case, number = "Nom" if subject else "Acc", "Plur" if plural else "Sing"
        word = Word(form if subject else other, form, "PRON", feats=f"Case={case}|Number={number}|Person={person}|PronType=Prs")
        return Phrase([word], word, person, plural, kind="person")

    def person_name(self) -> Phrase:
        """Returns a first name, with or without a surname, or a surname with a title."""
        names = self.lexicon.lists["names"]
        first = self.pick(names["first"])
        head = Word(first, first, "PROPN", feats="Number=Sing", entity="B-PERSON")
        if self.chance(0.5):
            return Phrase([head], head, kind="person")
        last = self.pick(names["last"])
        if self.chance(0.25):
            title = self.pick(("Mr.", "Mrs.", "Dr."))
            head = Word(last, last, "PROPN", feats="Number=Sing", entity="B-PERSON")
            return Phrase([Word(title, title, "PROPN", feats="Number=Sing").under(head, "compound"), head], head, kind="person")
        surname = Word(last, last, "PROPN", feats="Number=Sing", entity="I-PERSON").under(head, "flat")
        return Phrase([head, surname], head, kind="person")

    def name(self, kind: str, entity: str) -> Phrase:
        """Returns the name of a place or a company."""
        form = self.pick(self.lexicon.lists["names"][kind])
        word = Word(form, form, "PROPN", feats="Number=Sing", entity=f"B-{entity}")
        return Phrase([word], word, kind=kind)

    def common(self, noun: Noun, *, bare: bool = False, indefinite: bool = False) -> Phrase:
        """Returns a common noun with a determiner, maybe with adjectives and a phrase behind it."""
        plural = bool(noun.plural) and not indefinite and self.chance(0.32)
        number = "Plur" if plural else "Sing"
        head = Word(noun.plural if plural else noun.lemma, noun.lemma, "NOUN", feats=f"Number={number}")
        words = [*self._determiner(noun, head, plural, bare, indefinite), *self._adjectives(noun, head)]
        if not bare and noun.kind in COMPOUNDS and self.chance(0.12):
            first = self.pick(COMPOUNDS[noun.kind].split())
            words.append(Word(first, first, "NOUN", feats="Number=Sing").under(head, "compound"))
        words.append(head)
        if not bare and noun.kind in ("person", "animal", "building", "furniture") and self.chance(0.1):
            words += self._after(noun, head)
        return Phrase(words, head, 3, plural, noun, noun.kind)

    def _determiner(self, noun: Noun, head: Word, plural: bool, bare: bool, indefinite: bool) -> list[Word]:
        if indefinite:
            return [_det("a", head, "Definite=Ind|PronType=Art")]
        if not bare and self.chance(0.07):
            owner = self.person_name() if self.chance(0.6) else self.common(self.noun(["person"]), bare=True)
            owner.words[-1].glued = True
            mark = Word("'" if owner.words[-1].form.endswith("s") and owner.plural else "'s", "'s", "PART")
            return [*owner.under(head, "nmod:poss"), mark.under(owner.head, "case")]
        if self.chance(0.12):
            owner_form = self.pick(OWNERS)
            return [Word(owner_form, owner_form, "PRON", feats="Poss=Yes|PronType=Prs").under(head, "nmod:poss")]
        options: list[tuple[str, str]]
        if plural:
            options = [("the", "det")] * 6 + [("", "")] * 3 + [("number", "nummod")] * 3 + [("some", "det"), ("many", "amod")]
            options += [("these", "det"), ("those", "det"), ("all", "det")]
        elif noun.plural:
            options = [("the", "det")] * 8 + [("a", "det")] * 6 + [("this", "det"), ("that", "det"), ("every", "det")]
        else:
            options = [("the", "det")] * 4 + [("", "")] * 2 + [("some", "det")]
        form, deprel = self.pick(options)
        if deprel == "nummod":
            form = self.pick(NUMBERS)
            return [Word(form, form, "NUM", feats="NumType=Card", entity="B-NUMBER").under(head, "nummod")]
        if not form:
            return []
        return [Word(form, form, "ADJ", feats="Degree=Pos").under(head, "amod") if deprel == "amod" else _det(form, head)]

    def adjective(self, kind: str) -> list[Word]:
        """Returns an adjective that fits a class, last, maybe with an adverb before it."""
        form = self.pick(self.lexicon.adjectives[kind])
        word = Word(form, form, "ADJ", feats="Degree=Pos")
        if not self.chance(0.12):
            return [word]
        adverb = self.pick(self.lexicon.lists["adverbs"]["degree"])
        return [Word(adverb, adverb, "ADV").under(word, "advmod"), word]

    def _adjectives(self, noun: Noun, head: Word) -> list[Word]:
        if noun.kind not in self.lexicon.adjectives or not self.chance(0.3):
            return []
        words = self.adjective(noun.kind)
        words[-1].under(head, "amod")
        return words

    def _after(self, noun: Noun, head: Word) -> list[Word]:
        if noun.kind in ("person", "animal"):
            place = self.common(self.noun(["tool", "clothing"] if noun.kind == "person" else ["outdoors"]), bare=True)
            case = "with" if noun.kind == "person" else "near"
        else:
            place = self.common(self.noun(["outdoors" if noun.kind == "building" else "building"]), bare=True)
            case = "near" if noun.kind == "building" else "of"
        return [Word(case, case, "ADP").under(place.head, "case"), *place.under(head, "nmod")]

    def oblique(self, case: str, phrase: Phrase, verb: Word, role: str) -> list[Word]:
        """Returns a phrase with a preposition, which depends on a verb."""
        return [Word(case, case, "ADP").under(phrase.head, "case"), *phrase.under(verb, "obl", role)]

    def place(self, verb: Word, *, goal: bool = False) -> list[Word]:
        """Returns where something happens, or with `goal` where it goes."""
        cases = self.lexicon.lists["prepositions"]
        if self.chance(0.3):
            return self.oblique("to" if goal else "in", self.name("place", "PLACE"), verb, "Goal" if goal else "Location")
        kind = self.pick(("building", "area", "outdoors"))
        case = self.pick(cases["goal" if goal else kind])
        return self.oblique(case, self.common(self.noun([kind]), bare=True), verb, "Goal" if goal else "Location")

    def time(self, verb: Word, tense: str) -> list[Word]:
        """Returns when something happens, as fits "Past", "Pres" or "Fut"."""
        names = self.lexicon.lists["names"]
        options = ["day", "month", "hours"] + {
            "Past": ["year", "last", "yesterday"],
            "Pres": ["every"],
            "Fut": ["tomorrow", "next"],
        }[tense]
        chosen = self.pick(options)
        if chosen in ("day", "month"):
            form = self.pick(names[chosen])
            head = Word(form, form, "PROPN", feats="Number=Sing", entity="B-TIME")
            return self.oblique("on" if chosen == "day" else "in", Phrase([head], head), verb, "Time")
        if chosen == "year":
            form = str(self.random.randint(1900, 2019))
            head = Word(form, form, "NUM", feats="NumType=Card", entity="B-TIME")
            return self.oblique("in", Phrase([head], head), verb, "Time")
        if chosen == "hours":
            form, unit = self.pick(NUMBERS), self.pick(("hour", "day", "week", "year"))
            head = Word(unit + "s", unit, "NOUN", feats="Number=Plur", entity="I-TIME")
            count = Word(form, form, "NUM", feats="NumType=Card", entity="B-TIME").under(head, "nummod")
            return self.oblique("for" if self.chance(0.5) else "after", Phrase([count, head], head), verb, "Time")
        if chosen in ("yesterday", "tomorrow"):
            return [Word(chosen, chosen, "NOUN", feats="Number=Sing", entity="B-TIME", role="Time").under(verb, "obl:unmarked")]
        unit = self.pick(("week", "month", "year", "summer", "morning" if chosen == "every" else "winter"))
        head = Word(unit, unit, "NOUN", feats="Number=Sing", entity="I-TIME", role="Time").under(verb, "obl:unmarked")
        first = Word(chosen, chosen, "DET" if chosen == "every" else "ADJ", entity="B-TIME")
        return [first.under(head, "det" if chosen == "every" else "amod"), head]


def _det(form: str, head: Word, feats: str = "") -> Word:
    known = {"the": "Definite=Def|PronType=Art", "a": "Definite=Ind|PronType=Art"}
    return Word(form, form, "DET", feats=feats or known.get(form, "_")).under(head, "det")
