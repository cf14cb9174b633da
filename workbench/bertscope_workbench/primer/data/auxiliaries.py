"""Sentences with two auxiliaries, of which one is the main clause's: where the first one is, and where the second one is.

A probe that is trained where the main auxiliary is also the first can have learned either rule; where a relative clause stands
before the main auxiliary, only the rule about the tree is right (Lin et al. 2019, section 4; McCoy et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from bertscope import ProbeText
from bertscope.values.labelled_texts import Label

from bertscope_workbench.primer.data.words import Noun, Verb, lexicon

MAIN, OTHER = "main", "of the relative clause"
AUXILIARIES = ("can", "will", "must", "should", "might", "could", "would")
KINDS = ("person", "animal")
OPENINGS = ("", "Perhaps ", "In fact, ", "I think that ", "We all know that ", "My old friend often says that ")
"""Openings of different lengths: the place in the sentence must not tell auxiliaries apart."""


def auxiliary_texts(count: int, *, main_first: bool, seed: int) -> list[ProbeText]:
    """Returns sentences whose two auxiliaries are labelled "main" or "of the relative clause", different auxiliaries in each.

    With `main_first` the main clause's auxiliary is the first ("The cook can see the dog that the king will hear."), otherwise
    the second ("The dog that the king will hear can see the cook."). In the first, a noun stands before either of them, so that
    the word before does not tell them apart.
    """
    random, words = Random(seed), lexicon()  # noqa: S311  sentences, not secrets
    seeing = [verb for verb in words.verbs["transitive"] if {*KINDS} <= set(verb.subjects) and {*KINDS} <= set(verb.objects)]
    nouns = [noun for kind in KINDS for noun in words.nouns[kind]]
    found = []
    for _ in range(count):
        phrases = [_phrase(random, noun) for noun in random.sample(nouns, 3)]
        verbs, auxiliaries = random.sample(seeing, 2), random.sample(AUXILIARIES, 2)
        found.append(_text(random.choice(OPENINGS), phrases, verbs, auxiliaries, main_first))
    return found


def _phrase(random: Random, noun: Noun) -> str:
    adjectives = random.sample(lexicon().adjectives[noun.kind], random.choice((0, 0, 1, 2)))
    return " ".join(["the", *adjectives, noun.lemma])


def _text(
    opening: str, phrases: Sequence[str], verbs: Sequence[Verb], auxiliaries: Sequence[str], main_first: bool
) -> ProbeText:
    relative = f" that {phrases[2]} {auxiliaries[1]} {verbs[1].lemma}"
    clause = f" {auxiliaries[0]} {verbs[0].lemma} {phrases[1]}"
    text = opening + phrases[0] + (clause + relative if main_first else relative + clause) + "."
    text = text[0].upper() + text[1:]
    labels = []
    for name, word in zip((MAIN, OTHER), auxiliaries, strict=True):
        start = text.index(f" {word} ") + 1
        labels.append(Label(name, start, start + len(word)))
    return ProbeText(text, labels)
