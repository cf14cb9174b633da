"""Reads results by the end of a file's name: rows, or the document of a benchmark or of claims."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from .cells import cell, cells
from .claims import PRIMER, claims_of

MAX_COLUMNS = 60
"""Columns that the page shows."""
MAX_ROWS = 200_000
"""Rows that a file may have: more than any command writes."""
MAX_VALUES = 4_000_000
"""Values that a Parquet file may have in all of its columns, those within lists, too."""
DOCUMENT = re.compile(r'<script type="application/json" id="bertscope-document">(.*?)</script>', re.DOTALL)
"""The part of a page that holds its numbers, as `bertscope benchmark --output report.html` writes it."""

Rows = list[dict[str, Any]]
Item = TypeVar("Item")


class WrongFile(Exception):
    """A file that the page can't show; the message says why."""


def read(suffix: str, raw: bytes) -> Rows | dict[str, Any]:
    """Returns the rows of a file, or what is shown of a document: `{"report": ...}` of a benchmark, `{"claims": ...}` of
    claims. Raises WrongFile."""
    try:
        found = READERS[suffix](raw)
    except (WrongFile, MemoryError):
        raise
    except Exception as error:  # The file chooses which of the readers' errors comes.
        raise WrongFile(f"is no {suffix} file that bertscope writes") from error
    if not found:
        raise WrongFile("has no rows")
    return found


def _few(rows: Iterable[Item]) -> list[Item]:
    """Returns the rows, unless there are more than a file may have."""
    found = list(islice(rows, MAX_ROWS + 1))
    if len(found) > MAX_ROWS:
        raise _too_many("rows", MAX_ROWS)
    return found


def _too_many(what: str, most: int) -> WrongFile:
    return WrongFile(f"has more than {most:,} {what}; the page reads no larger file: take a part of it")


def _json(raw: bytes) -> Rows | dict[str, Any]:
    """Reads a document: a benchmark as it is, claims with their tests, of others the rows of their longest list."""
    document = json.loads(raw)
    if not isinstance(document, (dict, list)):
        raise TypeError("a document is an object or a list")
    if isinstance(document, dict) and {"machine", "models", "baseline"} <= document.keys():
        return {"report": cells(document)}
    if isinstance(document, dict) and document.keys() >= PRIMER:
        return {"claims": claims_of(document)}
    if isinstance(document, dict) and "importance" in document:
        return _importances(document["importance"])
    if isinstance(document, dict) and {"studies", "summary"} <= document.keys():
        return [row for study in document["studies"] for row in _systems(study)]
    lists = [document] if isinstance(document, list) else [value for value in document.values() if isinstance(value, list)]
    rows = [each for each in lists if each and all(isinstance(one, dict) for one in each)]
    if not rows:
        raise WrongFile("has no list of results in it")
    longest: list[Any] = max(rows, key=len)
    return _few(row for entry in longest for row in _by_metric(entry))


def _page(raw: bytes) -> Rows | dict[str, Any]:
    """Reads the document that a benchmark's page has in it."""
    found = DOCUMENT.search(raw.decode())
    if found is None:
        raise WrongFile("is a page without a benchmark in it")
    return _json(found[1].encode())


def _importances(grid: list[list[float]]) -> Rows:
    """Returns a row for each head of a ranking, [layers][heads]."""
    return [
        {"layer": layer, "head": head, "importance": cell(value)}
        for layer, row in enumerate(grid)
        for head, value in enumerate(row)
    ]


def _systems(study: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yields a row for each length that a published system was measured at."""
    system = {"system": study["published"]["system"], "baseline": study["baseline"]}
    for speed in (study["measured"] or {}).get("speeds", []):
        yield _flat(system | speed)


def _by_metric(entry: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yields a row for each metric of an effect, as its table has; another entry as it is, with dots in nested names."""
    flat = {name: value for name, value in entry.items() if name != "metrics"}
    metrics = entry.get("metrics")
    if isinstance(metrics, dict) and all(isinstance(value, dict) for value in metrics.values()):
        for metric in metrics.values():
            yield _flat(flat | metric)
    else:
        yield _flat(entry)


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise TypeError("a row is an object")
    row: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, dict) and len(row) < MAX_COLUMNS:
            row |= _flat(value, f"{prefix}{name}.")
        else:
            row[prefix + name] = cell(value)
    return row


def _lines(raw: bytes) -> Rows:
    lines = (line for line in io.StringIO(raw.decode()) if line.strip())
    return _few(_flat(json.loads(line)) for line in lines)


def _delimited(delimiter: str) -> Callable[[bytes], Rows]:
    def read_rows(raw: bytes) -> Rows:
        reader = csv.DictReader(io.StringIO(raw.decode("utf-8-sig")), delimiter=delimiter)
        return _few({name: _value(value) for name, value in row.items() if isinstance(name, str)} for row in reader)

    return read_rows


def _value(text: Any) -> Any:
    """Returns the number that a cell holds, None for an empty one, else the text."""
    if not isinstance(text, str) or not text:
        return None
    for kind in (int, float):
        try:
            return cell(kind(text))
        except ValueError:
            continue
    return cell(text)


def _parquet(raw: bytes) -> Rows:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(io.BytesIO(raw))
    # The footer says what there is before anything is read: a few bytes may stand for millions of equal values.
    footer = file.metadata
    if footer.num_rows > MAX_ROWS:
        raise _too_many("rows", MAX_ROWS)
    groups = (footer.row_group(index) for index in range(footer.num_row_groups))
    if sum(group.column(index).num_values for group in groups for index in range(group.num_columns)) > MAX_VALUES:
        raise _too_many("values", MAX_VALUES)
    batches = file.iter_batches(batch_size=1000, use_threads=False)
    return _few(_flat(row) for batch in batches for row in batch.to_pylist())


READERS: MappingProxyType[str, Callable[[bytes], Rows | dict[str, Any]]] = MappingProxyType(
    {".json": _json, ".html": _page, ".jsonl": _lines, ".csv": _delimited(","), ".tsv": _delimited("\t"), ".parquet": _parquet}
)
