"""Generates English sentences with their trees: a treebank of our own, where each word's part of speech, relation, role and
entity are known because the sentence was made from them.

Sentences have 5 to 18 words: transitive, intransitive, ditransitive, passive, copular and existential clauses, complement and
relative clauses, coordination, questions, orders, negation, adverbs, possessives, names, numbers and times. What goes together
is in lexicon.toml. Trees follow Universal Dependencies, version 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from bertscope_workbench.primer.data.clauses import Clauses
from bertscope_workbench.primer.data.phrases import Word
from bertscope_workbench.primer.data.words import article, lexicon

LEAST_WORDS, MOST_WORDS = 5, 18
"""Words of a sentence, punctuation included."""


def generate(count: int, seed: int = 0) -> Iterator[list[str]]:
    """Yields the CoNLL-U lines of `count` different sentences, the same for the same seed.

    MISC has `Role=Agent` of the head of an argument and `Entity=B-PERSON` of the words of names, numbers and times.
    """
    clauses, seen = Clauses(Random(seed), lexicon()), set[str]()  # noqa: S311  sentences, not secrets
    while len(seen) < count:
        words = finished(clauses.sentence())
        text = text_of(words)
        if LEAST_WORDS <= len(words) <= MOST_WORDS and text not in seen:
            seen.add(text)
            yield conllu(words, text)


def finished(words: Sequence[Word]) -> list[Word]:
    """Returns the words as a sentence is spelled: "an" before a vowel, and a capital first."""
    for word, following in pairwise(words):
        if word.form == "a" and word.upos == "DET":
            word.form = article(following.form)
    words[0].form = words[0].form[0].upper() + words[0].form[1:]
    return list(words)


def text_of(words: Sequence[Word]) -> str:
    """Returns the text of the words."""
    return "".join(word.form + " " * (not word.glued) for word in words).rstrip()


def conllu(words: Sequence[Word], text: str) -> list[str]:
    """Returns the lines of a sentence."""
    numbers = {id(word): str(number) for number, word in enumerate(words, start=1)}
    return [f"# text = {text}"] + ["\t".join(_columns(word, numbers)) for word in words]


def _columns(word: Word, numbers: dict[int, str]) -> list[str]:
    misc = [f"Entity={word.entity}"] * bool(word.entity) + [f"Role={word.role}"] * bool(word.role)
    misc += ["SpaceAfter=No"] * word.glued
    head = "0" if word.head is None else numbers[id(word.head)]
    deprel = "root" if word.head is None else word.deprel
    return [numbers[id(word)], word.form, word.lemma, word.upos, "_", word.feats, head, deprel, "_", "|".join(misc) or "_"]
