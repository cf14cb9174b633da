"""Reads the rows of files, one at a time: .tsv, .csv, .jsonl or .ndjson, .parquet and .txt, by the suffix of the file's name.

Tables and JSON Lines are UTF-8; lines that are blank are skipped. The rows of a Parquet file count from 1, as lines do. A line
that cannot be read is passed to `broken` as an error that names the file and the line; unless that raises it, reading goes on
with the next line. A file that cannot be read at all raises in any case.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument

Row = Mapping[str, Any]
"""Values by column."""
Names = Mapping[str, str]
"""The file's name of each column."""
Broken = Callable[[InvalidArgument], object]
"""Takes the error of a line that cannot be read, and raises it to end the reading."""

ALIASES = {"answer": "answers", "good": "sentence_good", "bad": "sentence_bad"}
"""Alternative names of a column; those of pairs are BLiMP's."""
PARQUET_ROWS = 1024
"""Rows of a Parquet file that are in memory at a time."""


class Line(NamedTuple):
    """A row of a file."""

    number: int
    """The number of its line, from 1; the first one, if it has several."""
    values: Row
    """The values of the columns that are read, by their names in bertscope."""
    columns: Row
    """The values of all columns, by their names in the file."""


class Cell(str):
    """Text of a file without types: text that looks like a number is one."""

    __slots__ = ()


def raised(error: InvalidArgument) -> None:
    """Ends the reading at the first broken line."""
    raise error


def read_lines(path: Path, names: Names, required: tuple[str, ...], broken: Broken = raised) -> Iterator[Line]:
    """Yields the rows of a file. Raises InvalidArgument for a file of another kind, or without a required column."""
    readers = {suffix: READERS[suffix] for suffix in READERS if suffix != ".txt" or required == ("text",)}
    try:
        reader = readers[path.suffix.lower()]
    except KeyError:
        raise invalid_argument(str(path), f"the name must end with {', '.join(readers)}") from None
    return reader(path, names, required, broken)


def bad_line(path: Path, number: int, problem: str) -> InvalidArgument:
    """Returns the error of a line."""
    return invalid_argument(f"{path}, line {number}", problem)


def json_object(path: Path, number: int, line: str, required: tuple[str, ...]) -> Row:
    """Returns the values of a line but null by their keys. Raises InvalidArgument, naming the file and the line."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise bad_line(path, number, f"is not JSON ({error}); write one object per line") from None
    if not isinstance(values, dict):
        raise bad_line(path, number, "is not a JSON object; write {" + ", ".join(f'"{name}": ...' for name in required) + "}")
    return {key: value for key, value in values.items() if value is not None}


def json_lines(path: Path, broken: Broken, required: tuple[str, ...]) -> Iterator[tuple[int, Row]]:
    """Yields the objects of a file of JSON Lines, as `json_object` returns them, with the numbers of their lines."""
    for number, line in text_lines(path, broken):
        try:
            values = json_object(path, number, line, required)
        except InvalidArgument as error:
            broken(error)
        else:
            yield number, values


def text_lines(path: Path, broken: Broken = raised) -> Iterator[tuple[int, str]]:
    """Yields the numbers and texts of the lines that are not blank, without their ends."""
    for number, line in _raw_lines(path):
        # Tabs separate cells, even empty ones.
        if line.strip(" \r\n") and _is_text(path, number, line, broken):
            yield number, line.rstrip("\r\n")


def _plain_rows(path: Path, names: Names, required: tuple[str, ...], broken: Broken) -> Iterator[Line]:
    for number, line in text_lines(path, broken):
        yield Line(number, {"text": line}, {"text": line})


def _json_rows(path: Path, names: Names, required: tuple[str, ...], broken: Broken) -> Iterator[Line]:
    return _keyed_rows(path, names, required, broken, json_lines(path, broken, required), "key")


def _parquet_rows(path: Path, names: Names, required: tuple[str, ...], broken: Broken) -> Iterator[Line]:
    import pyarrow
    import pyarrow.parquet

    with path.open("rb") as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
        except pyarrow.ArrowException as error:
            raise invalid_argument(str(path), f"is not a Parquet file ({error})") from None
        columns = table.schema_arrow.names
        _require(path, 1, "column", required, _present(names, columns), names, columns)
        rows = (row for batch in table.iter_batches(batch_size=PARQUET_ROWS) for row in batch.to_pylist())
        filled = ({key: value for key, value in row.items() if value is not None} for row in rows)
        yield from _keyed_rows(path, names, required, broken, enumerate(filled, start=1), "value in the column")


def _keyed_rows(
    path: Path, names: Names, required: tuple[str, ...], broken: Broken, rows: Iterable[tuple[int, Row]], kind: str
) -> Iterator[Line]:
    """Yields numbered rows that each have keys of their own; `kind` is what a row lacks that has not all that are required."""
    for number, values in rows:
        found = _present(names, values)
        try:
            _require(path, number, kind, required, found, names, values)
        except InvalidArgument as error:
            broken(error)
        else:
            yield Line(number, {name: values[key] for name, key in found.items()}, values)


def _tab_rows(path: Path, names: Names, required: tuple[str, ...], broken: Broken) -> Iterator[Line]:
    records = ((number, line.split("\t")) for number, line in text_lines(path, broken))
    return _table_rows(path, names, required, broken, records, "a tab")


def _comma_rows(path: Path, names: Names, required: tuple[str, ...], broken: Broken) -> Iterator[Line]:
    quotes = ", and quotes around a cell that has one in it"
    delimiter = _csv_delimiter(path)
    separator = "a semicolon" if delimiter == ";" else "a comma"
    yield from _table_rows(path, names, required, broken, _csv_records(path, broken, delimiter), separator, quotes)


def _csv_delimiter(path: Path) -> str:
    """Returns what is between the names of the columns: a comma, or a semicolon, as some spreadsheets write."""
    header = next((line for _, line in _raw_lines(path) if line.strip()), "")
    try:
        commas, semicolons = (len(next(csv.reader([header], delimiter=each), [])) for each in (",", ";"))
    except csv.Error:  # The reading says what is wrong.
        return ","
    return ";" if commas == 1 and semicolons > 1 else ","


def _csv_records(path: Path, broken: Broken, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields records, each with the number of its first line: a quoted cell may span several."""
    first = 1
    records = csv.reader((line for _, line in _raw_lines(path)), delimiter=delimiter, strict=True)
    while True:
        try:
            record = next(records)
            if record and _is_text(path, first, "".join(record), broken):
                yield first, record
        except StopIteration:
            return
        except csv.Error as error:
            said = bad_line(path, first, f'is not CSV ({error}); a cell with quotes in it is written "like ""this"""')
            if "field limit" in str(error):
                most = csv.field_size_limit()
                said = bad_line(
                    path, first, f"has a cell of more than {most} characters; shorten it, or write the file as .jsonl"
                )
            if "end of data" in str(error):  # A quote was never closed: what follows it is lost, not one line.
                raise said from None
            broken(said)
        first = records.line_num + 1


def _table_rows(
    path: Path,
    names: Names,
    required: tuple[str, ...],
    broken: Broken,
    records: Iterator[tuple[int, list[str]]],
    separator: str,
    more: str = "",
) -> Iterator[Line]:
    number, header = next(records, (1, []))
    header = [name.strip() for name in header]
    for name in header:
        if header.count(name) > 1:
            raise bad_line(path, number, f"names the column {name!r} twice")
    found = _present(names, header)
    _require(path, number, "column", required, found, names, header)
    for number, cells in records:
        row = dict(zip(header, cells, strict=False))
        empty = [key for key in found.values() if not row.get(key, "").strip()]
        if len(cells) != len(header):
            said = f"has {len(cells)} columns where the first line names {len(header)}; put {separator} between them{more}"
            broken(bad_line(path, number, said))
        elif empty:
            broken(bad_line(path, number, f"{empty[0]}: is empty; fill it in or take the line out"))
        else:
            yield Line(number, {name: Cell(row[key]) for name, key in found.items()}, row)


def _present(names: Names, keys: Iterable[str]) -> dict[str, str]:
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
    names: Names,
    keys: Iterable[str],
) -> None:
    for name in required:
        if name not in found:
            there = ", ".join(map(repr, keys)) or "none"
            raise bad_line(path, number, f"has no {kind} {names[name]!r}; it has {there} (columns= maps names)")


def _raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields lines; bytes that are not UTF-8 become surrogates, which `_is_text` finds."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8", errors="surrogateescape")


def _is_text(path: Path, number: int, line: str, broken: Broken) -> bool:
    """Returns whether a line was UTF-8; tells `broken` about it if not."""
    if line.isascii():
        return True
    try:
        line.encode("utf-8", errors="surrogateescape").decode()
    except UnicodeDecodeError as error:
        broken(bad_line(path, number, f"is not UTF-8 ({error.reason}); save the file as UTF-8"))
        return False
    return True


READERS: dict[str, Callable[[Path, Names, tuple[str, ...], Broken], Iterator[Line]]] = {
    ".tsv": _tab_rows,
    ".csv": _comma_rows,
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".parquet": _parquet_rows,
    ".txt": _plain_rows,
}
