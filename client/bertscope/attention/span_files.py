"""Reads texts with marked words from JSON Lines, for words that no treebank has: their places are code points.

A line of linked words is {"text": "The cat sleeps.", "pairs": [["nsubj", 2, 1]]}, maybe with "words": [[0, 3], [4, 7], ...];
without them, words are the parts between white space. A line of words with features is {"text": "The cat sleeps.", "marks":
[["noun", 4, 7]]}. Both may have a "text_pair", whose words have a third number, the segment 1: [0, 3, 1].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, SupportsIndex

from bertscope._validation import TextOrPair
from bertscope.attention.marked_texts import FeatureText, RelationText
from bertscope.errors import invalid_argument
from bertscope.files import File, Items, Row, read_items

SUFFIXES = (".jsonl", ".ndjson")


def read_relation_texts(path: File, *, limit: SupportsIndex | None = None) -> Items[RelationText]:
    """Reads texts with linked words, for `score_relations`: keys "text" and "pairs", and "words" and "text_pair" if there are.

    `limit` reads that many. Raises OSError for a file that cannot be read, and InvalidArgument, naming the file and the line,
    for one with other contents.
    """
    _require_json(path)
    return read_items(path, ("text", "pairs"), ("words", "text_pair"), None, limit, _relation_text)


def read_feature_texts(path: File, *, limit: SupportsIndex | None = None) -> Items[FeatureText]:
    """Reads texts with marked words, for `score_features`: keys "text" and "marks", and "text_pair" if there is one.

    `limit` and errors are as in `read_relation_texts`.
    """
    _require_json(path)
    return read_items(path, ("text", "marks"), ("text_pair",), None, limit, lambda row: FeatureText(_text(row), row["marks"]))


def _relation_text(row: Row) -> RelationText:
    return RelationText(_text(row), row["pairs"], row.get("words"))


def _text(row: Row) -> TextOrPair:
    text: Any = row["text"]
    return (text, row["text_pair"]) if "text_pair" in row else text


def _require_json(path: File) -> None:
    if Path(path).suffix.lower() not in SUFFIXES:
        raise invalid_argument(str(path), f"the name must end with {' or '.join(SUFFIXES)}")
