"""Reads texts with marked or labelled words from files, for words that no treebank has: their places are code points.

A line of linked words is {"text": "The cat sleeps.", "pairs": [["nsubj", 2, 1]]}, maybe with "words": [[0, 3], [4, 7], ...];
without them, words are the parts between white space. A line of words with features is {"text": "The cat sleeps.", "marks":
[["noun", 4, 7]]}. Both may have a "text_pair", whose words have a third number, the segment 1: [0, 3, 1].
Labelled spans have formats of their own, see `read_probe_texts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import FeatureText, ProbeText, RelationText, UnlabelledText, ValuedText
from bertscope.errors import invalid_argument
from bertscope.values.labelled_texts import Label, Value
from bertscope.values.validation import File, TextOrPair

from bertscope_workbench.readers.conllu import blocks, decoded
from bertscope_workbench.readers.item_lists import BadLine, PartialItems, collected, made, no_line, require_file
from bertscope_workbench.readers.table_rows import Broken, Row, bad_line, json_lines
from bertscope_workbench.readers.treebanks import ConlluLabel, ProbeTexts, read_probe_conllu

__all__ = [
    "SpanTexts",
    "ValuedTexts",
    "read_feature_texts",
    "read_probe_texts",
    "read_relation_texts",
    "read_span_texts",
    "read_valued_texts",
]

T = TypeVar("T")
FoundT = TypeVar("FoundT", bound=PartialItems[Any])

CONLLU, COLUMNS, SUFFIXES = ".conllu", ".tsv", (".jsonl", ".ndjson")
SPAN_SUFFIXES = (CONLLU, COLUMNS, *SUFFIXES)
"""The formats of labelled spans."""
PLACE_KEYS = ("start", "end", "segment")


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


class ValuedTexts(PartialItems[ValuedText]):
    """The texts read from a file, of which some could not be."""


class SpanTexts(PartialItems[ProbeText | UnlabelledText]):
    """The texts read from a file, of which some could not be."""


def read_probe_texts(path: File, label: ConlluLabel = "upos", *, limit: SupportsIndex | None = None) -> ProbeTexts:
    """Reads texts with labelled spans, for `train_probe`. The suffix of the file's name determines its format:

    - .conllu: a treebank; `label` is the column to predict, as in `read_probe_conllu`.
    - .tsv: a word, a tab and its label in each line, a blank line between sentences. A text is its words with blanks between
      them. Words without a label ("_") are left out.
    - .jsonl or .ndjson: an object per line, {"text": ..., "text_pair": ..., "spans": [{"start": 4, "end": 7, "segment": 0,
      "label": ...}]}; "text_pair" and "segment" may be left out. A pair's second part is "other": {"start": ..., "end": ...}.
      Positions are code points.

    A text that can't be read is left out and reported in `problems`; the others are read. `limit` reads that many. Raises
    OSError for a file that can't be read, and InvalidArgument if no text of it can be.
    """
    if Path(path).suffix.lower() == CONLLU:
        return read_probe_conllu(path, label, limit=limit)
    return _read_spans(Path(path), limit, ProbeTexts(), labelled=True)


def read_valued_texts(path: File, label: ConlluLabel = "depth", *, limit: SupportsIndex | None = None) -> ValuedTexts:
    """Reads texts whose spans have numbers, for `train_regression_probe`: as `read_probe_texts`, with labels that are numbers.

    A span of .jsonl has its number as "value". A text with a label that is no number is left out and reported in `problems`;
    the others are read.
    """
    path, found = Path(path), ValuedTexts()
    if path.suffix.lower() in SUFFIXES:
        rows = json_lines(path, found.problems.append, ("text", "spans"))
        items = made(path, rows, lambda row: ValuedText(_text(row), _marked(row, "value")), found.problems.append)
        return collected(found, items, limit, path, 'has no text; write one with spans that have a "value"')
    texts = read_probe_texts(path, label, limit=limit)
    numbered = zip(texts.lines, texts, strict=True)
    items = made(path, numbered, _numbers, found.problems.append)
    collected(found, items, None, path, f"has no text whose labels ({label}) are numbers")
    found.problems += texts.problems
    return found


def _numbers(text: ProbeText) -> ValuedText:
    """Returns a text whose labels are written numbers. Raises InvalidArgument for others."""
    values: list[Value] = []
    for index, (label, start, end, segment, other) in enumerate(map(Label._make, text.labels)):
        try:
            values.append(Value(float(label), start, end, segment, other))
        except ValueError:
            raise invalid_argument(f"labels[{index}]", f"is {label!r}; write a number") from None
    return ValuedText(text.text, values)


def read_span_texts(path: File, label: ConlluLabel = "upos", *, limit: SupportsIndex | None = None) -> SpanTexts:
    """Reads texts with spans, for `apply_probe`: as `read_probe_texts`, but that "label" may be left out of all spans of a
    line, which is then an `UnlabelledText`."""
    if Path(path).suffix.lower() != CONLLU:
        return _read_spans(Path(path), limit, SpanTexts(), labelled=False)
    texts = read_probe_conllu(path, label, limit=limit)
    found = SpanTexts(texts)
    found.lines, found.problems = texts.lines, texts.problems
    return found


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


def _read_spans(path: Path, limit: SupportsIndex | None, found: FoundT, *, labelled: bool) -> FoundT:
    broken, suffix = found.problems.append, path.suffix.lower()
    if suffix not in SPAN_SUFFIXES:
        raise invalid_argument(str(path), f"the name must end with {', '.join(SPAN_SUFFIXES)}")
    empty = "has no text; write one with labelled words"
    if suffix != COLUMNS:
        rows = json_lines(path, broken, ("text", "spans"))
        return collected(found, made(path, rows, partial(_spans, labelled=labelled), broken), limit, path, empty)
    require_file(path)
    with path.open("rb") as file:
        sentences = ((lines[0][0], lines) for _, lines in blocks(file))
        return collected(found, made(path, sentences, _sentence, broken), limit, path, empty)


def _sentence(lines: list[tuple[int, bytes]]) -> ProbeText:
    labels: list[tuple[str, int, int]] = []
    words: list[str] = []
    end = -1
    for number, raw in lines:
        row = decoded(number, raw).split("\t")
        if len(row) != 2 or not all(part.strip() for part in row):
            raise BadLine(number, f'has {len(row)} columns; write a word, a tab and its label ("_" for none)')
        word, name = (part.strip() for part in row)
        start, end = end + 1, end + 1 + len(word)
        words.append(word)
        if name != "_":
            labels.append((name, start, end))
    return ProbeText(" ".join(words), labels)


def _spans(values: Any, *, labelled: bool) -> ProbeText | UnlabelledText:
    _check_spans(values)
    text = _text(values)
    names = [span.get("label") for span in values["spans"]]
    missing = [index for index, name in enumerate(names) if name is None]
    if missing and not labelled and len(missing) == len(names):
        places = [_places(index, span) for index, span in enumerate(values["spans"])]
        return UnlabelledText(text, [own if len(own) == 2 else own[0] for own in places])
    return ProbeText(text, _marked(values, "label"))


def _check_spans(row: Row) -> None:
    for key in ("text", "spans"):
        if key not in row:
            raise invalid_argument(key, 'is missing; write "text" and "spans"')
    if not isinstance(row["spans"], list) or not all(isinstance(span, dict) for span in row["spans"]):
        raise invalid_argument("spans", 'must be a list of {"start": ..., "end": ..., "label": ...}')


def _marked(row: Row, key: str) -> list[tuple[Any, ...]]:
    """Returns the spans of a row, each with its label or number."""
    spans: list[tuple[Any, ...]] = []
    _check_spans(row)
    for index, one in enumerate(row["spans"]):
        place = _places(index, one)
        if one.get(key) is None:
            raise invalid_argument(f"spans[{index}]", f"has no {key}; write one for each span")
        spans.append((one[key], *place) if len(place) == 2 else (one[key], *place[0]))
    return spans


def _places(index: int, span: dict[str, Any]) -> tuple[tuple[Any, ...], ...]:
    """Returns the place of a span; of a pair, of both."""
    parts = [span, *([span["other"]] if "other" in span else ())]
    if not all(isinstance(part, dict) for part in parts):
        raise invalid_argument(f"spans[{index}].other", 'must be an object {"start": ..., "end": ...}')
    return tuple(tuple(part.get(key, 0 if key == "segment" else None) for key in PLACE_KEYS) for part in parts)
