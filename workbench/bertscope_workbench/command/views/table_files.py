"""Writes tables to files: .csv, .tsv, .jsonl (an object for each row), .parquet or .tex, by the suffix of the file's name."""

import csv
import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bertscope.values.display import data_frame

from bertscope_workbench.command.views.files import require_output, written
from bertscope_workbench.command.views.latex import latex_table
from bertscope_workbench.command.views.output import Failure, json_text

DELIMITERS = {".tsv": "\t", ".csv": ","}
PARQUET = ".parquet"
LATEX = ".tex"
TABLE_FORMATS = (*DELIMITERS, ".jsonl", PARQUET, LATEX)


def require_table(path: Path | None, option: str = "--output") -> None:
    """Rejects, before any call, tables that could not be written after it."""
    require_output(path, TABLE_FORMATS, option)
    if path is not None and path.suffix.lower() == PARQUET and not all(map(importlib.util.find_spec, ("pandas", "pyarrow"))):
        raise Failure("Parquet files need pandas and pyarrow: pip install pandas pyarrow")


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], path: Path, units: Mapping[str, str] | None = None
) -> None:
    """Writes rows. NaN is an empty cell in .csv and .tsv, a dash in .tex, null in the others. `units`, for .tex, are those of
    columns whose name alone doesn't say it. A failure to write becomes a line."""
    values = [[_plain(value) for value in row] for row in rows]
    suffix = path.suffix.lower()
    if suffix == PARQUET:
        try:
            data_frame(values, list(columns)).to_parquet(path, index=False)
        except OSError as error:
            raise Failure(f"cannot write {path}: {error.strerror or error}") from error
        return
    with written(path) as file:
        if suffix in DELIMITERS:
            csv.writer(file, delimiter=DELIMITERS[suffix], lineterminator="\n").writerows([columns, *values])
        elif suffix == LATEX:
            file.write(latex_table(columns, values, units))
        else:
            file.writelines(json_text(dict(zip(columns, row, strict=True)), indent=None) for row in values)


def write_columns(columns: Mapping[str, Any], path: Path, units: Mapping[str, str] | None = None) -> None:
    """Writes the table whose columns have these values, as `write_table` does."""
    write_table([*columns], zip(*columns.values(), strict=True), path, units)


def _plain(value: Any) -> Any:
    """Returns a number of numpy's as one of Python's; None for NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
