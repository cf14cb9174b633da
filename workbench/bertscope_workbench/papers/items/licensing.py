"""Generates sentences with negative polarity items (NPIs) such as "ever", which need a licensor such as "no" that has them in
its scope (Warstadt et al. 2019)."""

from __future__ import annotations

from bertscope_workbench.papers.items.agreement import PEOPLE, plural
from bertscope_workbench.papers.items.contrasts import MASK, Contrast, between

LICENSORS = (
    ("No", "Some"),
    ("Few", "Many"),
    ("No", "The"),
    ("None of the", "All of the"),
    ("Hardly any", "Almost all"),
    ("Few", "Several"),
    ("No", "Both"),
    ("Not many", "Quite many"),
)
"""Words that license an NPI, and words like them that do not; with plurals."""
ENDINGS = (
    ("ever", "have {mask} seen the sea ."),
    ("any", "have read {mask} books about it ."),
    ("anything", "have said {mask} about the plan ."),
    ("anyone", "have told {mask} about the plan ."),
    ("anybody", "have seen {mask} in the house ."),
    ("anywhere", "have gone {mask} this year ."),
    ("yet", "have left the town {mask} ."),
    ("either", "have liked the film {mask} ."),
)
"""NPIs, each with the rest of a sentence."""
PAIRS = 4


def licensed() -> list[Contrast]:
    """Returns an NPI after a licensor against the same sentence without it; a group for each licensor and NPI."""
    return [
        between(f"{yes} {heads} {end}", f"{no} {heads} {end}", npi, group) for yes, no, heads, _, npi, end, group in _frames()
    ]


def in_scope() -> list[Contrast]:
    """Returns an NPI in the scope of a licensor against one that is not: the licensor stands in a relative clause, whose words
    are the same; groups as in `licensed`."""
    return [
        between(
            f"{yes} {heads} that {no.lower()} {others} met {end}",
            f"{no} {heads} that {yes.lower()} {others} met {end}",
            npi,
            group,
        )
        for yes, no, heads, others, npi, end, group in _frames()
    ]


def _frames() -> list[tuple[str, str, str, str, str, str, str]]:
    found = []
    for number, (yes, no) in enumerate(LICENSORS):
        for npi, end in ENDINGS:
            for pair in range(PAIRS):
                place = (number * PAIRS + pair) * 2
                heads, others = (plural(PEOPLE[(place + shift) % len(PEOPLE)]) for shift in (0, 5))
                found.append((yes, no, heads, others, npi, end.format(mask=MASK), f"{yes}/{no}, {npi}"))
    return found
