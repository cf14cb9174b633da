"""Names items in errors by their places: "line 3" in the place of "texts[1].text". Pure."""

import re
from collections.abc import Callable

ITEM = re.compile(r"(?<![\w.])(?:texts|inputs|sets|pairs|facts|items)\[(\d+)\](?:\.input\b)?(?:\.text\b)?")
SECOND = re.compile(r"(?<![\w.])text_pairs\[(\d+)\]")
CANDIDATE = re.compile(r"(?<![\w.])text_candidates\[(\d+)\]\.words\[(\d+)\]")


def with_places(message: str, place: Callable[[int], str | None]) -> str:
    """Returns a server's message with the places of items, of their second texts and of their candidates.

    `place` returns that of an index, or None for one that it does not know.

    >>> with_places("text_candidates[1].words[0] can't be written", lambda index: f"line {index + 2}")
    "candidate 1 of line 3 can't be written"
    """

    def item(found: re.Match[str]) -> str:
        return place(int(found[1])) or found[0]

    def second(found: re.Match[str]) -> str:
        known = place(int(found[1]))
        return found[0] if known is None else f"the second text of {known}"

    def candidate(found: re.Match[str]) -> str:
        known = place(int(found[1]))
        return found[0] if known is None else f"{candidate_name(found[2])} of {known}"

    return ITEM.sub(item, SECOND.sub(second, CANDIDATE.sub(candidate, message)))


def candidate_name(index: str) -> str:
    """Returns the name of a candidate: "candidate 1"."""
    return f"candidate {int(index) + 1}"
