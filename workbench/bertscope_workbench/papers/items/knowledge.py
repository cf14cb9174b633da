"""Names of people by country, and what is said of countries, from tables beside this module."""

from bertscope_workbench.papers.items import table
from bertscope_workbench.papers.items.contrasts import MASK

CITIZENS = (f"{{}} is a {MASK} citizen.", f"{{}} is a {MASK} writer.")


def nationalities() -> list[str]:
    """Returns the nationalities of names.tsv."""
    return [row["nationality"] for row in table("names.tsv")]


def citizens() -> list[tuple[str, str, str]]:
    """Returns country, nationality and the sentence that asks for it, of each name that is common there."""
    return [
        (row["country"], row["nationality"], sentence.format(name))
        for row in table("names.tsv")
        for name in row["names"].split("|")
        for sentence in CITIZENS
    ]


def listed(name: str, column: str) -> dict[str, str]:
    """Returns by country what a table says of it: its continent or its language."""
    return {country: row[column] for row in table(name) for country in row["countries"].split("|")}
