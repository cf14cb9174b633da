"""Reads sentences and their translations, and alignments of their words, from files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import SupportsIndex

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.validation import File

from bertscope_workbench.analyses.alignment import GoldAlignment
from bertscope_workbench.readers.files import TRANSLATIONS, Columns, read_items
from bertscope_workbench.readers.item_lists import Items, collected, no_line, require_file
from bertscope_workbench.readers.table_rows import bad_line, text_lines

__all__ = ["read_gold_alignments", "read_translations"]

SEPARATOR = "|||"
"""Stands between a sentence and its translation, as in the files of fast_align and SimAlign."""
TEXT = ".txt"


def read_translations(
    path: File, targets: File | None = None, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[str, str]]:
    """Reads sentences and their translations, for `retrieve_sentences` and `align_words`.

    With `targets`, line k of that file is the translation of line k of `path`, whatever their suffixes; lines that are blank in
    both are skipped. One file alone is a .txt, "sentence ||| translation" in each line, or a table (.tsv, .csv, .jsonl,
    .parquet) with the columns "source" and "target", which `columns` maps to the file's. `limit` reads that many pairs.

    Raises OSError for a file that can't be read, and InvalidArgument, naming the file and the line, for other contents.
    """
    if targets is None and Path(path).suffix.lower() != TEXT:
        return read_items(path, TRANSLATIONS, columns, limit)
    if columns:
        raise invalid_argument("columns", "goes with a table; a file of lines has no columns")
    pairs = _split(Path(path)) if targets is None else _beside(Path(path), Path(targets))
    return collected(Items[tuple[str, str]](), pairs, limit, Path(path), no_line(TRANSLATIONS.required))


def read_gold_alignments(path: File, *, limit: SupportsIndex | None = None) -> list[GoldAlignment]:
    """Reads gold alignments, for `score_alignments`: a line of "0-0 1p2" for each pair, from 0; a blank line is a pair without
    links. `limit` reads that many.

    Raises OSError for a file that can't be read, and InvalidArgument, naming the file and the line, for what is no link.
    """
    most = None if limit is None else validation.positive("limit", limit)
    found = []
    require_file(Path(path))
    with Path(path).open(encoding="utf-8-sig", errors="surrogateescape") as file:  # Parsing reports what is not UTF-8.
        for number, line in itertools.islice(enumerate(file, start=1), most):
            try:
                found.append(GoldAlignment.parse(line))
            except InvalidArgument as error:
                raise bad_line(Path(path), number, error.field_violations[0].description) from None
    return found


def _split(path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    for number, line in text_lines(path):
        source, separator, target = (part.strip() for part in line.partition(SEPARATOR))
        if not (source and separator and target):
            raise bad_line(path, number, f"is no pair; write: sentence {SEPARATOR} translation")
        yield number, (source, target)


def _beside(path: Path, targets: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    one, other = dict(text_lines(path)), dict(text_lines(targets))
    for number in sorted(one.keys() | other.keys()):
        if not (number in one and number in other):
            missing, given = (targets, path) if number in one else (path, targets)
            raise bad_line(missing, number, f"is blank or missing, and {given} has a sentence there")
        yield number, (one[number], other[number])
