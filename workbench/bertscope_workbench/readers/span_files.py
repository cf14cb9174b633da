"""Reads texts with marked words from JSON Lines, for words that no treebank has: their places are code points.

A line of linked words is {"text": "The cat sleeps.", "pairs": [["nsubj", 2, 1]]}, maybe with "words": [[0, 3], [4, 7], ...];
without them, words are the parts between white space. A line of words with features is {"text": "The cat sleeps.", "marks":
[["noun", 4, 7]]}. Both may have a "text_pair", whose words have a third number, the segment 1: [0, 3, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import FeatureText, RelationText
from bertscope.errors import invalid_argument
from bertscope.values.validation import File, TextOrPair

from bertscope_workbench.readers.item_lists import PartialItems, collected, made, no_line
from bertscope_workbench.readers.table_rows import Broken, Row, bad_line, json_lines

__all__ = ["read_feature_texts", "read_relation_texts"]

T = TypeVar("T")

SUFFIXES = (".jsonl", ".ndjson")


def read_relation_texts(path: File, *, limit: SupportsIndex | None = None) -> PartialItems[RelationText]:
    """Reads texts with linked words, for `score_relations`: keys "text" and "pairs", and "words" and "text_pair" if there are.

    A line that can't be read is left out and reported in `problems`; the others are read. `limit` reads that many. Raises
    OSError for a file that cannot be read, and InvalidArgument, naming the file and the line, if no line can be.
    """
    return _read(path, "pairs", limit, lambda row: RelationText(_text(row), row["pairs"], row.get("words")))


def read_feature_texts(path: File, *, limit: SupportsIndex | None = None) -> PartialItems[FeatureText]:
    """Reads texts with marked words, for `score_features`: keys "text" and "marks", and "text_pair" if there is one.

    `limit` and errors are as in `read_relation_texts`.
    """
    return _read(path, "marks", limit, lambda row: FeatureText(_text(row), row["marks"]))


def _read(path: File, marks: str, limit: SupportsIndex | None, item: Callable[[Row], T]) -> PartialItems[T]:
    path, required = Path(path), ("text", marks)
    if path.suffix.lower() not in SUFFIXES:
        raise invalid_argument(str(path), f"the name must end with {' or '.join(SUFFIXES)}")
    found = PartialItems[T]()
    rows = _complete(path, required, found.problems.append)
    return collected(found, made(path, rows, item, found.problems.append), limit, path, no_line(required))


def _complete(path: Path, required: tuple[str, ...], broken: Broken) -> Iterator[tuple[int, Row]]:
    """Yields the objects of a file that have all required keys."""
    for number, row in json_lines(path, broken, required):
        missing = next((name for name in required if name not in row), None)
        if missing is None:
            yield number, row
        else:
            broken(bad_line(path, number, f"has no key {missing!r}; it has {', '.join(map(repr, row)) or 'none'}"))


def _text(row: Row) -> TextOrPair:
    text: Any = row["text"]
    return (text, row["text_pair"]) if "text_pair" in row else text
