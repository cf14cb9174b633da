"""Reads the items of a sweep from files: prompts, texts, pairs of sentences, labelled texts.

The suffix of a file's name determines its format: .tsv (tabs, no quoting, as in GLUE), .csv (commas, quoting), .jsonl or
.ndjson (a JSON object per line); texts may also be .txt (a text per line). TSV and CSV begin with a line that names the
columns. Files are UTF-8; lines that are blank are skipped.

`columns` maps names to a file's columns: `{"text": "sentence1", "text_pair": "sentence2"}`. `limit` reads that many items
and ignores the rest. Every function raises OSError for a file that cannot be read, and InvalidArgument, naming the file
and the line, for one with other contents.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import _validation
from bertscope._validation import TextOrPair
from bertscope.errors import InvalidArgument, invalid_argument

T = TypeVar("T")
File = str | PathLike[str]
Columns = Mapping[str, str] | None
Row = Mapping[str, Any]
Rows = Iterator[tuple[int, Row]]
"""Numbers of lines, and their values by column."""

ANSWER_SEPARATOR = "|"
ALIASES = {"answer": "answers", "good": "sentence_good", "bad": "sentence_bad"}
"""Alternative names of a column; those of pairs are BLiMP's."""
MAX_DIGITS = 10
"""The most digits of an index; a longer value is a name."""


class Items(list[T]):
    """The items read from a file; `lines` are the numbers of their lines."""

    lines: list[int]
    paths: list[Path]
    """The file of each item, if they are of several."""


def read_prompts(
    path: File, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[str, tuple[str, ...]]]:
    """Reads prompts and their gold answers, for `ClozePrompts`: columns "text" and "answer".

    Several answers have "|" between them; in JSON they may be a list. "answers" may replace "answer".
    """
    return read_items(path, ("text", "answer"), (), columns, limit, lambda row: (_text(row, "text"), _answers(row["answer"])))


def read_texts(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[str]:
    """Reads texts, for `MaskedLmLoss` and `reference_texts`: column "text", or a .txt file."""
    return read_items(path, ("text",), (), columns, limit, lambda row: _text(row, "text"))


def read_inputs(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[TextOrPair]:
    """Reads texts or pairs of texts, for `Divergence` and `classify`: column "text", and "text_pair" if there is one."""
    return read_items(path, ("text",), ("text_pair",), columns, limit, _input)


def read_pairs(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[tuple[str, str]]:
    """Reads pairs of sentences, for `MinimalPairs`: columns "good" and "bad", or BLiMP's "sentence_good" and "sentence_bad"."""
    return read_items(path, ("good", "bad"), (), columns, limit, lambda row: (_text(row, "good"), _text(row, "bad")))


def read_labelled(
    path: File, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[TextOrPair, str | int]]:
    """Reads labelled texts, for `LabelledTexts`: columns "text" and "label", and "text_pair" if there is one.

    A label that is a whole number is an index, as in GLUE's files; any other is a name. In JSON a number is an index and a
    string a name, whatever it looks like.
    """
    return read_items(path, ("text", "label"), ("text_pair",), columns, limit, lambda row: (_input(row), _label(row["label"])))


def read_items(
    path: File,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    columns: Columns,
    limit: SupportsIndex | None,
    item: Callable[[Row], T],
) -> Items[T]:
    """Reads an item from each line that has the required columns; `item` makes it of their values."""
    path = Path(path)
    names = _names((*required, *optional), columns or {})
    read = _reader(path, required)
    most = None if limit is None else _validation.positive("limit", limit)
    items = Items[T]()
    items.lines = []
    for number, row in itertools.islice(read(path, names, required), most):
        try:
            items.append(item(row))
            items.lines.append(number)
        except InvalidArgument as error:
            raise _bad_line(path, number, str(error)) from None
    if not items:
        raise invalid_argument(str(path), f"has no line to read; write one item per line, with {' and '.join(required)}")
    return items


def _names(known: tuple[str, ...], columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the file's name of each column."""
    for name in columns:
        if name not in known:
            raise invalid_argument("columns", f"{name!r} is not among the columns that are read: {', '.join(known)}")
    return {name: _validation.text("columns", columns.get(name, name)) for name in known}


def _reader(path: Path, required: tuple[str, ...]) -> Callable[[Path, Mapping[str, str], tuple[str, ...]], Rows]:
    readers = {suffix: READERS[suffix] for suffix in READERS if suffix != ".txt" or required == ("text",)}
    try:
        return readers[path.suffix.lower()]
    except KeyError:
        raise invalid_argument(str(path), f"the name must end with {', '.join(readers)}") from None


def _plain_rows(path: Path, names: Mapping[str, str], required: tuple[str, ...]) -> Rows:
    return ((number, {"text": line}) for number, line in _lines(path))


def _json_rows(path: Path, names: Mapping[str, str], required: tuple[str, ...]) -> Rows:
    for number, line in _lines(path):
        values = json_object(path, number, line, required)
        found = _present(names, values)
        _require(path, number, "key", required, found, names, values)
        yield number, {name: values[key] for name, key in found.items()}


def json_object(path: Path, number: int, line: str, required: tuple[str, ...]) -> Row:
    """Returns the values of a line but null by their keys. Raises InvalidArgument, naming the file and the line."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad_line(path, number, f"is not JSON ({error}); write one object per line") from None
    if not isinstance(values, dict):
        raise _bad_line(path, number, "is not a JSON object; write {" + ", ".join(f'"{name}": ...' for name in required) + "}")
    return {key: value for key, value in values.items() if value is not None}


def _tab_rows(path: Path, names: Mapping[str, str], required: tuple[str, ...]) -> Rows:
    return _table_rows(path, names, required, ((number, line.split("\t")) for number, line in _lines(path)), "a tab")


def _comma_rows(path: Path, names: Mapping[str, str], required: tuple[str, ...]) -> Rows:
    return _table_rows(path, names, required, _csv_records(path), "a comma", ", and quotes around a cell that has one in it")


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields records, each with the number of its first line: a quoted cell may span several."""
    first = 1
    records = csv.reader((line for _, line in _raw_lines(path)), strict=True)
    while True:
        try:
            record = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            raise _bad_line(path, first, f'is not CSV ({error}); a cell with quotes in it is written "like ""this"""') from None
        if record:
            yield first, record
        first = records.line_num + 1


def _table_rows(
    path: Path,
    names: Mapping[str, str],
    required: tuple[str, ...],
    records: Iterator[tuple[int, list[str]]],
    separator: str,
    more: str = "",
) -> Rows:
    number, header = next(records, (1, []))
    header = [name.strip() for name in header]
    for name in header:
        if header.count(name) > 1:
            raise _bad_line(path, number, f"names the column {name!r} twice")
    found = _present(names, header)
    _require(path, number, "column", required, found, names, header)
    for number, cells in records:
        if len(cells) != len(header):
            raise _bad_line(
                path,
                number,
                f"has {len(cells)} columns where the first line names {len(header)}; put {separator} between them{more}",
            )
        row = dict(zip(header, cells, strict=True))
        for key in found.values():
            if not row[key].strip():
                raise _bad_line(path, number, f"{key}: is empty; fill it in or take the line out")
        yield number, {name: _Cell(row[key]) for name, key in found.items()}


class _Cell(str):
    """Text of a file without types: text that looks like a number is one."""

    __slots__ = ()


def _present(names: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Returns the key of each column that exists."""
    keys = set(keys)
    found = {}
    for name, key in names.items():
        alias = ALIASES.get(name, key)
        if key in keys:
            found[name] = key
        elif key == name and alias in keys:
            found[name] = alias
    return found


def _require(
    path: Path,
    number: int,
    kind: str,
    required: Iterable[str],
    found: Mapping[str, str],
    names: Mapping[str, str],
    keys: Iterable[str],
) -> None:
    for name in required:
        if name not in found:
            there = ", ".join(map(repr, keys)) or "none"
            raise _bad_line(path, number, f"has no {kind} {names[name]!r}; it has {there} (columns= or --columns maps names)")


def _text(row: Row, name: str) -> str:
    text = _validation.text(name, row[name])
    if not text.strip():
        raise invalid_argument(name, "is empty; fill it in or take the line out")
    return str(text)


def _input(row: Row) -> TextOrPair:
    text = _text(row, "text")
    return (text, _text(row, "text_pair")) if "text_pair" in row else text


def _answers(value: object) -> tuple[str, ...]:
    answers = value.split(ANSWER_SEPARATOR) if isinstance(value, str) else value
    if (
        not isinstance(answers, list)
        or not answers
        or not all(isinstance(answer, str) and answer.strip() for answer in answers)
    ):
        raise invalid_argument("answer", 'must be a text, or several with "|" between them, none of them empty')
    return tuple(answer.strip() for answer in answers)


def _label(value: object) -> str | int:
    if isinstance(value, _Cell):
        digits = value.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
            return value.strip()
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise invalid_argument("label", "must be a name or an index")
    if isinstance(value, int) and value < 0:
        raise invalid_argument(
            "label", f"{value} is not an index; GLUE's test files have no labels, take the development files"
        )
    return value if isinstance(value, int) else _text({"label": value}, "label")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines that are not blank, without their ends."""
    for number, line in _raw_lines(path):
        if line.strip(" \r\n"):  # Tabs separate cells, even empty ones.
            yield number, line.rstrip("\r\n")


def _raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise _bad_line(path, number, f"is not UTF-8 ({error.reason}); save the file as UTF-8") from None


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the numbers and texts of the lines that are not blank. Raises InvalidArgument for one that is not UTF-8."""
    return _lines(path)


def _bad_line(path: Path, number: int, problem: str) -> InvalidArgument:
    return invalid_argument(f"{path}, line {number}", problem)


READERS: dict[str, Callable[[Path, Mapping[str, str], tuple[str, ...]], Rows]] = {
    ".tsv": _tab_rows,
    ".csv": _comma_rows,
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".txt": _plain_rows,
}
