"""Generates sentences in which a verb must agree with a noun that is not the nearest one.

Each head noun is asked in the singular and in the plural, with a noun of the other number between it and the verb, so that
neither form is right more often, and a model that agrees with the nearest noun is always wrong.
"""

from __future__ import annotations

from random import Random

from bertscope_workbench.papers.items.contrasts import MASK, Contrast, choice

PEOPLE = (
    "author", "pilot", "surgeon", "farmer", "manager", "customer", "officer", "teacher", "senator", "guard", "minister",
    "driver", "painter", "doctor", "lawyer", "actor", "singer", "worker", "banker", "soldier", "dancer", "engineer",
    "neighbor", "tourist",
)  # fmt: skip
THINGS = (
    "key", "cabinet", "picture", "window", "letter", "garden", "table", "bridge", "engine", "river", "camera", "mountain",
    "ticket", "bottle", "island", "blanket", "tower", "market", "village", "planet", "tunnel", "mirror", "kitchen",
    "hammer", "candle", "pencil",
)  # fmt: skip
VERBS = (("is", "are"), ("was", "were"), ("has", "have"))
FOLLOWED = {"is": "old", "was": "old", "has": "been here for years"}
OF_PEOPLE = ("The {head} near the {other} {mask} {rest}.", "The {head} that the {other} met {mask} {rest}.")
OF_THINGS = ("The {head} behind the {other} {mask} {rest}.", "The {head} that the {other} bought {mask} {rest}.")
ADJECTIVES = ["green", "early", "silent", "wooden", "single", "angry", "hollow", "bitter", "modern", "frozen"]
MEANINGLESS = (
    "The {adjective} {head} of the {other} {mask} {rest}.",
    "The {head} that the {adjective} {other} ate {mask} {rest}.",
    "The {head} under the {other} {mask} {rest} with a {adjective} idea.",
)
SEED = 0


def across_attractors() -> list[Contrast]:
    """Returns sensible sentences with a noun of the other number before the verb; a group for each head noun."""
    found = []
    for nouns, frames, others in ((PEOPLE, OF_PEOPLE, PEOPLE), (THINGS, OF_THINGS, PEOPLE)):
        for number, noun in enumerate(nouns):
            for place, frame in enumerate(frames):
                things = nouns is THINGS and not place
                pool = THINGS if things else others
                found += _both(frame, noun, pool[(number + 7 + place) % len(pool)], VERBS[(number + place) % 3], "")
    return found


def nonsense() -> list[Contrast]:
    """Returns sentences whose nouns and adjectives are drawn at random, so that they are grammatical and mean nothing (as
    Gulordava et al. 2018 made theirs); a group for each head noun."""
    generator = Random(SEED)  # noqa: S311  sentences, not secrets
    found = []
    for noun in (*PEOPLE, *THINGS):
        for frame in MEANINGLESS:
            other = generator.choice([each for each in (*PEOPLE, *THINGS) if each != noun])
            found += _both(frame, noun, other, generator.choice(VERBS), generator.choice(ADJECTIVES))
    return found


def plural(noun: str) -> str:
    """Returns the plural of a noun of these lists; all are regular."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    return noun + "s"


def _both(frame: str, head: str, other: str, forms: tuple[str, str], adjective: str) -> list[Contrast]:
    """Returns a sentence with a singular head and with a plural one; the other noun has the other number."""
    singular, several = forms
    rest = FOLLOWED[singular]

    def text(first: str, second: str) -> str:
        return frame.format(head=first, other=second, mask=MASK, rest=rest, adjective=adjective)

    return [
        choice(text(head, plural(other)), singular, several, head),
        choice(text(plural(head), other), several, singular, head),
    ]
