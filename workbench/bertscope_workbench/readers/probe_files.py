"""Reads texts with labelled spans from files: CoNLL-U, words and labels in columns, spans as JSON Lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import ProbeText, UnlabelledText
from bertscope.errors import invalid_argument
from bertscope.values.validation import File

from bertscope_workbench.readers.conllu import blocks, decoded
from bertscope_workbench.readers.item_lists import BadLine, PartialItems, collected, made
from bertscope_workbench.readers.table_rows import json_lines
from bertscope_workbench.readers.treebanks import ConlluLabel, ProbeTexts, read_probe_conllu

__all__ = ["SpanTexts", "read_probe_texts", "read_span_texts"]

CONLLU, COLUMNS, JSON_LINES = ".conllu", ".tsv", (".jsonl", ".ndjson")
SUFFIXES = (CONLLU, COLUMNS, *JSON_LINES)
PLACE_KEYS = ("start", "end", "segment")
FoundT = TypeVar("FoundT", bound=PartialItems[Any])


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
    return _read(Path(path), limit, ProbeTexts(), labelled=True)


def read_span_texts(path: File, label: ConlluLabel = "upos", *, limit: SupportsIndex | None = None) -> SpanTexts:
    """Reads texts with spans, for `apply_probe`: as `read_probe_texts`, but that "label" may be left out of all spans of a
    line, which is then an `UnlabelledText`."""
    if Path(path).suffix.lower() != CONLLU:
        return _read(Path(path), limit, SpanTexts(), labelled=False)
    texts = read_probe_conllu(path, label, limit=limit)
    found = SpanTexts(texts)
    found.lines, found.problems = texts.lines, texts.problems
    return found


def _read(path: Path, limit: SupportsIndex | None, found: FoundT, *, labelled: bool) -> FoundT:
    broken, suffix = found.problems.append, path.suffix.lower()
    if suffix not in SUFFIXES:
        raise invalid_argument(str(path), f"the name must end with {', '.join(SUFFIXES)}")
    empty = "has no text; write one with labelled words"
    if suffix != COLUMNS:
        rows = json_lines(path, broken, ("text", "spans"))
        return collected(found, made(path, rows, partial(_spans, labelled=labelled), broken), limit, path, empty)
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
    for key in ("text", "spans"):
        if key not in values:
            raise invalid_argument(key, 'is missing; write "text" and "spans"')
    text = (values["text"], values["text_pair"]) if "text_pair" in values else values["text"]
    if not isinstance(values["spans"], list) or not all(isinstance(span, dict) for span in values["spans"]):
        raise invalid_argument("spans", 'must be a list of {"start": ..., "end": ..., "label": ...}')
    names = [span.get("label") for span in values["spans"]]
    places = [_places(index, span) for index, span in enumerate(values["spans"])]
    missing = [index for index, name in enumerate(names) if name is None]
    if missing and (labelled or len(missing) < len(names)):
        raise invalid_argument(f"spans[{missing[0]}]", "has no label; label each span")
    if missing:
        return UnlabelledText(text, [own if len(own) == 2 else own[0] for own in places])
    return ProbeText(
        text, [(name, *own) if len(own) == 2 else (name, *own[0]) for name, own in zip(names, places, strict=True)]
    )


def _places(index: int, span: dict[str, Any]) -> tuple[tuple[Any, ...], ...]:
    """Returns the place of a span; of a pair, of both."""
    parts = [span, *([span["other"]] if "other" in span else ())]
    if not all(isinstance(part, dict) for part in parts):
        raise invalid_argument(f"spans[{index}].other", 'must be an object {"start": ..., "end": ...}')
    return tuple(tuple(part.get(key, 0 if key == "segment" else None) for key in PLACE_KEYS) for part in parts)
