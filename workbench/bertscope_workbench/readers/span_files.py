"""Reads texts with marked words from JSON Lines, for words that no treebank has: their places are code points.

A line of linked words is {"text": "The cat sleeps.", "pairs": [["nsubj", 2, 1]]}, maybe with "words": [[0, 3], [4, 7], ...];
without them, words are the parts between white space. A line of words with features is {"text": "The cat sleeps.", "marks":
[["noun", 4, 7]]}. Both may have a "text_pair", whose words have a third number, the segment 1: [0, 3, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import FeatureText, InvalidArgument, RelationText
from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.validation import File, TextOrPair

from bertscope_workbench.readers.conllu import BOM, BadLine, decoded
from bertscope_workbench.readers.files import PartialItems
from bertscope_workbench.readers.table_rows import Row, json_object

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
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise invalid_argument(str(path), f"the name must end with {' or '.join(SUFFIXES)}")
    most = None if limit is None else validation.positive("limit", limit)
    found = PartialItems[T]()
    found.lines, found.problems = [], []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = _row(path, number, line, ("text", marks))
                found.append(_made(path, number, row, item))
                found.lines.append(number)
            except InvalidArgument as error:
                found.problems.append(error)
            if len(found) == most:
                break
    if not found:
        empty = f"has no line to read; write one item per line, with text and {marks}"
        raise found.problems[0] if found.problems else invalid_argument(str(path), empty)
    return found


def _row(path: Path, number: int, line: bytes, required: tuple[str, ...]) -> Row:
    try:
        text = decoded(number, line.removeprefix(BOM) if number == 1 else line)
    except BadLine as error:
        raise invalid_argument(f"{path}, line {number}", str(error)) from None
    row = json_object(path, number, text, required)
    for name in required:
        if name not in row:
            there = ", ".join(map(repr, row)) or "none"
            raise invalid_argument(f"{path}, line {number}", f"has no key {name!r}; it has {there}")
    return row


def _made(path: Path, number: int, row: Row, item: Callable[[Row], T]) -> T:
    try:
        return item(row)
    except InvalidArgument as error:
        raise invalid_argument(f"{path}, line {number}", str(error)) from None


def _text(row: Row) -> TextOrPair:
    text: Any = row["text"]
    return (text, row["text_pair"]) if "text_pair" in row else text
