"""Writes and reads the lines of row files: CSV, and JSON Lines. Pure but for reading.

A line is either whole or has no end: what a process that was killed has left of its last line can be told, and dropped.
"""

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument

Row = Mapping[str, Any]

LAST_COLUMN = "bertscope"
"""A column of every row: the version that wrote it."""
FIRST_COLUMNS = ("line", "item")
"""The first column of every row is one of these: the number of its item."""
CELL = re.compile(r'"([^"]*(?:""[^"]*)*)"|([^,"\r\n]*)')
"""A cell of CSV, in quotes or without. The module csv rejects cells of more than 131,072 characters."""


class WrittenRow(NamedTuple):
    """A row that a file has."""

    number: int
    """The number of its first line, from 1."""
    end: int
    """The place in the file after it, in bytes."""
    cells: Row
    """Its values by column, as the format gives them back."""


class Csv:
    """A header and a line for each row; cells with a comma, a quote or a line's end have quotes around them."""

    beginnings = tuple(f"{name},".encode() for name in FIRST_COLUMNS)
    """The beginnings that a file may have."""

    def header(self, columns: Sequence[str]) -> bytes:
        """Returns the line of the columns' names."""
        return _csv_line(columns)

    def line(self, row: Row) -> bytes:
        """Returns the cells with commas between."""
        return _csv_line(list(self.cells(row).values()))

    def cells(self, row: Row) -> dict[str, str]:
        """Returns texts: numbers as Python writes them, lists as JSON, None as nothing."""
        return {name: _cell(plain(value)) for name, value in row.items()}

    def read(self, file: BinaryIO, path: Path) -> Iterator[WrittenRow]:
        """Yields the rows after the header, up to the end or to a line that was cut."""
        header: list[str] | None = None
        for number, end, line in _csv_lines(file):
            try:
                cells = _csv_cells(line.decode())
                row = dict(zip(cells if header is None else header, cells, strict=True))
            except ValueError as error:
                raise not_ours(path, number, error) from None
            if header is None:
                header = cells
                if LAST_COLUMN not in header:
                    raise not_ours(path, number, f"no column {LAST_COLUMN!r}")
            else:
                yield WrittenRow(number, end, row)


class JsonLines:
    """A JSON object for each row."""

    beginnings = tuple(f'{{"{name}": '.encode() for name in FIRST_COLUMNS)
    """The beginnings that a file may have."""

    def header(self, columns: Sequence[str]) -> bytes:
        """Returns nothing: each line has the names."""
        return b""

    def line(self, row: Row) -> bytes:
        """Returns the object, in UTF-8."""
        values = {name: plain(value) for name, value in row.items()}
        try:
            return json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair in a column's name
            return json.dumps(values, allow_nan=False).encode() + b"\n"

    def cells(self, row: Row) -> Row:
        """Returns the values as JSON has them."""
        return {name: json.loads(json.dumps(plain(value))) for name, value in row.items()}

    def read(self, file: BinaryIO, path: Path) -> Iterator[WrittenRow]:
        """Yields the objects, up to the end or to a line that was cut."""
        end = 0
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            end += len(line)
            try:
                row = json.loads(line)
            except ValueError as error:
                raise not_ours(path, number, error) from None
            if not isinstance(row, dict):
                raise not_ours(path, number, "not an object")
            yield WrittenRow(number, end, row)


FORMATS: Mapping[str, Csv | JsonLines] = {".csv": Csv(), ".jsonl": JsonLines()}
"""The formats whose files grow by lines."""


def plain(value: Any) -> Any:
    """Returns a value in JSON's types: None for what is not a number, a text for what JSON does not know.

    Half of a surrogate pair, which no file can hold, becomes "?".
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    numpy = sys.modules.get("numpy")  # Imported by whatever has made such a value; a command of texts does without.
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(each) for key, each in value.items()}
    return plain(str(value))


def not_ours(path: Path, number: int, why: object) -> InvalidArgument:
    """Returns the error of a file that another program wrote or changed."""
    return invalid_argument(f"{path}, line {number}", f"is not a line that bertscope wrote ({why}); write to another file")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _csv_line(cells: Sequence[str]) -> bytes:
    return ",".join(map(_quoted, cells)).encode(errors="replace") + b"\n"


def _quoted(cell: str) -> str:
    if any(sign in cell for sign in ',"\r\n') or cell != cell.strip():
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _csv_cells(record: str) -> list[str]:
    """Returns the cells of a record. Raises ValueError for one that `_csv_line` has not written."""
    cells, place = list[str](), -1
    while place < 0 or record.startswith(",", place):
        found = CELL.match(record, place + 1)
        if found is None:
            raise ValueError("a cell has no end")
        place = found.end()
        cells.append(found[2] if found[1] is None else found[1].replace('""', '"'))
    if record[place:] not in {"\n", "\r\n"}:
        raise ValueError("a quote inside a cell")
    return cells


def _csv_lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yields whole records, each with the number of its first line and its end: quotes are even where a record ends."""
    end, first, record = 0, 1, b""
    for number, line in enumerate(file, start=1):
        record += line
        end += len(line)
        if record.endswith(b"\n") and record.count(b'"') % 2 == 0:
            yield first, end, record
            first, record = number + 1, b""
