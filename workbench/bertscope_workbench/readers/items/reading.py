"""Reads the rows of files that `write_items` has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertscope import Provenance
from bertscope.errors import invalid_argument

from bertscope_workbench.readers.items import parquet
from bertscope_workbench.readers.items.formats import FORMATS, Row
from bertscope_workbench.readers.items.row_file import PARQUET, ROW_FORMATS


def read_rows(path: Path) -> Iterator[Row]:
    """Yields the whole rows of a file: values by column, as the format gives them back; see `value`.

    Raises OSError for a file that cannot be read, and InvalidArgument for one with other contents.
    """
    suffix = path.suffix.lower()
    if suffix not in ROW_FORMATS:
        raise invalid_argument(str(path), f"the name must end with {', '.join(ROW_FORMATS)}")
    if suffix == PARQUET:
        parquet.require()
        yield from parquet.rows(path)
        return
    with path.open("rb") as file:
        for written in FORMATS[suffix].read(file, path):
            yield written.cells


def row_provenance(row: Row) -> Provenance:
    """Returns the provenance of a row's answer; `device`, which no row has, is empty. Raises KeyError or ValueError for a
    row of another kind."""
    return Provenance(
        *(row["model"], row["weights"], row["runtime"], "", row["precision"]), value(row["versions"]), "zero_based"
    )


def value(cell: Any) -> Any:
    """Returns a list, a number, True, False or None, whether the format keeps its type or has it as a text of JSON.

    Raises ValueError for another text.
    """
    if isinstance(cell, str):
        return json.loads(cell) if cell else None
    return cell
