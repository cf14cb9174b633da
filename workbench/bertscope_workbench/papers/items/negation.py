"""Sentences that say what a thing is, and what it is not (the form of NEG-136-SIMP of Ettinger 2020, with nouns of our own)."""

from __future__ import annotations

from random import Random

from bertscope_workbench.papers.items.contrasts import MASK, Contrast, crossed

KINDS = {
    "bird": "robin sparrow eagle parrot crow hawk owl swan",
    "fish": "salmon trout shark tuna carp cod bass eel",
    "tree": "oak pine maple willow palm birch cedar elm",
    "flower": "rose tulip lily daisy orchid violet iris lotus",
    "fruit": "banana cherry peach mango lemon pear plum apple",
    "vegetable": "carrot potato onion cabbage bean radish turnip lettuce",
    "vehicle": "truck bus van taxi tractor motorcycle car wagon",
    "weapon": "rifle sword pistol dagger spear gun axe cannon",
    "tool": "hammer shovel drill saw chisel wrench rake axe",
    "building": "hotel castle palace church cathedral library barn warehouse",
    "sport": "soccer tennis hockey golf rugby boxing cricket basketball",
    "language": "french german arabic latin russian swedish hindi greek",
    "metal": "iron copper silver gold zinc tin lead nickel",
    "drink": "coffee beer wine tea juice milk whiskey vodka",
}
"""Things by their kind; no kind begins with a vowel, so that "a" fits them all."""
UNCOUNTED = ("sport", "language", "metal", "drink")
"""Kinds whose things take no article."""
SEED = 0


def affirmed() -> list[Contrast]:
    """Returns "A robin is a [MASK]." and "A truck is a [MASK].": each with its own kind, against each with the other's."""
    return [crossed(sentence(one), sentence(other), kinds, f"{one[1]}, {other[1]}") for one, other, kinds in _pairs()]


def negated() -> list[Contrast]:
    """Returns the same with "is not a": each with the other's kind, which makes it true, against its own, which makes it
    false."""
    return [
        crossed(sentence(one, "not "), sentence(other, "not "), (kinds[1], kinds[0]), f"{one[1]}, {other[1]}")
        for one, other, kinds in _pairs()
    ]


def sentence(thing: tuple[str, str], word: str = "") -> str:
    """Returns the sentence about a thing, given as its kind and its name, with a word before the last "a"."""
    kind, name = thing
    if kind in UNCOUNTED:
        return f"{name.capitalize()} is {word}a {MASK}."
    return f"{'An' if name[0] in 'aeiou' else 'A'} {name} is {word}a {MASK}."


def _pairs() -> list[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]]:
    """Returns each thing once, beside a thing of another kind, and both kinds."""
    generator, found = Random(SEED), list[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]]()  # noqa: S311  no secrets
    for things in zip(*(names.split() for names in KINDS.values()), strict=True):
        order = [*zip(KINDS, things, strict=True)]
        generator.shuffle(order)
        found += [(one, other, (one[0], other[0])) for one, other in zip(order[::2], order[1::2], strict=True)]
    return found
