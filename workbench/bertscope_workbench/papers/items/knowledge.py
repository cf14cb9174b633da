"""Items about the roles, the sizes, the names and the jobs of things and people, from tables beside this module."""

from __future__ import annotations

from collections.abc import Iterator

from bertscope_workbench.papers.items import shipped
from bertscope_workbench.papers.items.contrasts import MASK, Contrast, between, choice, crossed

SIZE, COMPARED = ("big", "small"), ("bigger", "smaller")
SIZES = ("{a} {noun} is very {mask}.", "{a} {noun} is a {mask} thing.")
COMPARISONS = ("{a} {noun} is {mask} than {b} {other}.", "{a} {noun} is much {mask} than {b} {other}.")
JOBS = (
    "The {job} said that {mask} was tired.",
    "The {job} stopped because {mask} had finished.",
    "The {job} knows what {mask} wants.",
)
CITIES = {
    "Italy": "Rome", "Germany": "Berlin", "France": "Paris", "Spain": "Madrid", "Japan": "Tokyo", "China": "Beijing",
    "Russia": "Moscow", "Poland": "Warsaw", "Greece": "Athens", "Turkey": "Istanbul", "Sweden": "Stockholm", "Norway": "Oslo",
    "Ireland": "Dublin", "India": "Delhi", "Korea": "Seoul", "Hungary": "Budapest", "Finland": "Helsinki", "Portugal": "Lisbon",
    "Denmark": "Copenhagen", "Israel": "Jerusalem",
}  # fmt: skip
"""A city of each country of names.tsv."""
CITIZEN, PROFESSIONS = "{name} is a {mask} {profession}.", ("citizen", "writer")


def table(name: str) -> list[dict[str, str]]:
    """Returns the rows of a shipped table of tabs with a head line."""
    head, *rows = (line.split("\t") for line in shipped(name).read_text("utf-8").splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]


def fitting_roles() -> list[Contrast]:
    """Returns the word that fits a role ("tip the waiter") against one that goes with it and does not fit ("chef")."""
    return [choice(row["text"], row["right"], row["related"], row["text"]) for row in table("roles.tsv")]


def related_roles() -> list[Contrast]:
    """Returns the word that goes with the sentence ("chef") against one that has nothing to do with it ("robin")."""
    return [choice(row["text"], row["related"], row["unrelated"], row["text"]) for row in table("roles.tsv")]


def sizes() -> list[Contrast]:
    """Returns things that differ much in size: "big" fits the larger one and "small" the smaller; a group for each two."""
    return [
        crossed(_size(frame, larger), _size(frame, smaller), SIZE, f"{larger}, {smaller}")
        for larger, smaller in _things()
        for frame in SIZES
    ]


def comparisons() -> list[Contrast]:
    """Returns the same things compared: the larger one is "bigger", and the other "smaller"; groups as in `sizes`."""
    return [
        crossed(_compared(frame, larger, smaller), _compared(frame, smaller, larger), COMPARED, f"{larger}, {smaller}")
        for larger, smaller in _things()
        for frame in COMPARISONS
    ]


def stereotyped_jobs() -> list[Contrast]:
    """Returns a job that mostly men have and one that mostly women have: "he" against "she" in the same neutral sentence."""
    return [
        crossed(
            frame.format(job=row["men"], mask=MASK),
            frame.format(job=row["women"], mask=MASK),
            ("he", "she"),
            "/".join(row.values()),
        )
        for row in table("jobs.tsv")
        for frame in JOBS
    ]


def names() -> Iterator[tuple[str, str, str]]:
    """Yields country, nationality and a name that is common there."""
    for row in table("names.tsv"):
        for name in row["names"].split("|"):
            yield row["country"], row["nationality"], name


def nationalities() -> list[str]:
    """Returns the nationalities of names.tsv."""
    return [row["nationality"] for row in table("names.tsv")]


def citizens() -> list[tuple[str, str, str]]:
    """Returns country, nationality and the sentence that asks for it, of each name."""
    return [
        (country, nationality, CITIZEN.format(name=name, mask=MASK, profession=profession))
        for country, nationality, name in names()
        for profession in PROFESSIONS
    ]


def names_against_facts() -> list[Contrast]:
    """Returns people who are said to be born elsewhere than their names suggest: the nationality of the name, against the same
    sentence about somebody whose name is of a third country; a group for each country of names."""
    people = list(names())
    found = []
    for number, (country, nationality, name) in enumerate(people):
        (stated, _, _), (_, _, third) = people[(number + 42) % len(people)], people[(number + 79) % len(people)]
        text = f"{{name}} was born in {CITIES[stated]}. {CITIZEN}"
        right, wrong = (text.format(name=each, mask=MASK, profession="citizen") for each in (name, third))
        found.append(between(right, wrong, nationality, country))
    return found


def listed(name: str, column: str) -> dict[str, str]:
    """Returns by country what a table says of it: its continent or its language."""
    return {country: row[column] for row in table(name) for country in row["countries"].split("|")}


def _things() -> list[tuple[str, str]]:
    return [(row["larger"], row["smaller"]) for row in table("sizes.tsv")]


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _size(frame: str, noun: str) -> str:
    return frame.format(a=_article(noun).capitalize(), noun=noun, mask=MASK)


def _compared(frame: str, noun: str, other: str) -> str:
    return frame.format(a=_article(noun).capitalize(), noun=noun, b=_article(other), other=other, mask=MASK)
