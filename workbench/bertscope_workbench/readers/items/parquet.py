"""Turns a journal, which has a JSON object in each line, into a Parquet file, and back.

The same journal gives the same bytes. A column has the type that holds all its values: a column of numbers and texts has texts
of JSON. Memory does not grow with the number of rows.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument

GROUP_ROWS = 16 * 1024
"""Rows that are in memory at a time: a row group of the file."""


def pack(journal: Path, path: Path) -> None:
    """Writes a journal's rows to a Parquet file, in the place of an earlier one."""
    import pyarrow
    import pyarrow.parquet

    types = _types(journal)
    texts = [name for name, kind in types.items() if kind is None]
    schema = pyarrow.schema([(name, pyarrow.string() if kind is None else kind) for name, kind in types.items()])
    with _replacing(path) as part, part.open("wb") as file:
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            for rows in _groups(journal):
                for row in rows:
                    row.update({name: _json_text(row.get(name)) for name in texts})
                writer.write_table(pyarrow.Table.from_pylist(rows, schema), row_group_size=GROUP_ROWS)
        file.flush()
        os.fsync(file.fileno())


def unpack(path: Path, journal: Path) -> None:
    """Writes the rows of a Parquet file to a journal."""
    with _replacing(journal) as part, part.open("w", encoding="utf-8", newline="") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(path))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file. Raises OSError, and InvalidArgument for a file of another kind."""
    import pyarrow.parquet

    try:
        with path.open("rb") as source:
            for batch in pyarrow.parquet.ParquetFile(source).iter_batches(batch_size=GROUP_ROWS):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise invalid_argument("output", f"{path} is not a Parquet file ({error}); write to another file") from None


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yields the path to write to; the file there takes the place of `path` when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _groups(journal: Path) -> Iterator[list[dict[str, Any]]]:
    with journal.open("rb") as file:
        lines = map(json.loads, file)
        while rows := list(islice(lines, GROUP_ROWS)):
            yield rows


def _types(journal: Path) -> dict[str, Any]:
    """Returns the type of each column; None for one that becomes texts of JSON."""
    import pyarrow

    types: dict[str, Any] = {}
    for rows in _groups(journal):
        for name in rows[0]:
            types[name] = _joined(types.get(name, pyarrow.null()), [row.get(name) for row in rows])
    return {name: pyarrow.string() if kind == pyarrow.null() else kind for name, kind in types.items()}


def _joined(known: Any, values: list[Any]) -> Any:
    """Returns the type that holds the values and those before; None if there is none."""
    import pyarrow

    if known is None:
        return None
    try:
        found = pyarrow.array(values).type
        schemas = [pyarrow.schema([("column", kind)]) for kind in (known, found)]
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field("column").type
    except pyarrow.ArrowException:
        return None


def _json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
