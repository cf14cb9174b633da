"""Reads pairs of a clean text and a corrupted one, each with what is measured on it and named groups of words."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bertscope import MaskedWords, NoisyWords
from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.validation import TextOrPair

from bertscope_workbench.readers.files import ItemKind

OWN = ("answer", "other", "label")
"""Columns of a file that name the number of each line."""
PLACE = re.compile(r"(\d+)-(\d+)")
"""The place of a word, code points."""


class TracedPair(NamedTuple):
    """A pair of texts, and the columns of its line that name its number."""

    clean: TextOrPair
    corrupted: TextOrPair | NoisyWords | MaskedWords
    groups: Mapping[str, Any] | None
    own: Mapping[str, Any]


def place_of(field: str, text: TextOrPair, words: str) -> tuple[int, int]:
    """Returns the place of words, which are written as such, or as "0-5". Raises InvalidArgument unless a text has them
    once."""
    found = PLACE.fullmatch(words)
    if found:
        return int(found[1]), int(found[2])
    one = text if isinstance(text, str) else text[0]
    places = [each.start() for each in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", one)] if words.strip() else []
    if len(places) != 1:
        raise invalid_argument(field, f"has {words!r} {len(places)} times; write its place, such as 0-5")
    return places[0], places[0] + len(words)


def _places(name: str, text: TextOrPair, given: Any) -> Any:
    """Returns spans: words of the text, or places [start, end], or several of either."""
    if isinstance(given, str):
        return [place_of(name, text, given)]
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return [place_of(name, text, each) for each in given]
    if isinstance(given, list) and len(given) in (2, 3) and all(isinstance(each, int) for each in given):
        return [tuple(given)]
    if isinstance(given, list) and all(isinstance(each, list) for each in given):
        return [tuple(each) for each in given]
    raise invalid_argument(name, f"must be words, or places such as [[4, 8]], not {given!r}")


def _pair(row: Mapping[str, Any]) -> TracedPair:
    clean = _text(row, "clean")
    given = [name for name in ("corrupted", "noise", "masked") if row.get(name) not in (None, "")]
    if len(given) != 1:
        raise invalid_argument("corrupted", "must be one of the columns corrupted, noise and masked; fill in one of them")
    ways: dict[str, Callable[[], Any]] = {
        "corrupted": lambda: _text(row, "corrupted"),
        "noise": lambda: NoisyWords(_places("noise", clean, row["noise"])),
        "masked": lambda: MaskedWords(_places("masked", clean, row["masked"])),
    }
    groups = row.get("groups")
    if groups is not None and not isinstance(groups, Mapping):
        raise invalid_argument("groups", 'must be an object, such as {"subject": "keys"}')
    named = None if groups is None else {name: _places(f"groups.{name}", clean, spans) for name, spans in groups.items()}
    own = {name: row[name] for name in OWN if name in row}
    return TracedPair(clean, ways[given[0]](), named, own)


def _text(row: Mapping[str, Any], name: str) -> Any:
    """Returns a text, or a pair, which a line has as a list of two."""
    value = row[name]
    if isinstance(value, list) and len(value) == 2:
        return tuple(validation.text(name, part) for part in value)
    return validation.text(name, value)


TRACED = ItemKind(("clean",), ("corrupted", "noise", "masked", "groups", *OWN), _pair)
"""A pair: columns "clean" and "corrupted", or "noise" or "masked" (words), "groups", "answer" and "other", or "label"."""
