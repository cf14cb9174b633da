"""The question of the Results view: a file that the command wrote, read for the page."""

from __future__ import annotations

import base64
import binascii
import csv
import importlib.util
import io
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from bertscope.aio import AsyncClient
from bertscope.errors import InvalidArgument, invalid_argument
from bertscope.explore.body import Body
from bertscope.explore.plain import plain
from bertscope.explore.questions.result_curves import curves_of
from bertscope.explore.streams import Event

MAX_ROWS = 2000
"""Rows that the page shows; the file's number of rows is said."""
MAX_COLUMNS = 60
RATIO = ("low", "high", "verdict", "caveat")
PLACES = range(256)
"""Layers and heads that a grid may have."""

Rows = list[dict[str, Any]]


async def results(_: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Reads a file's bytes (`data`, base64) by the end of its `name`: .json, .jsonl, .csv, .tsv or .parquet.

    Yields `{"report": ...}` for a benchmark; else `{"table": {"columns", "rows", "total"}}`, and before it, if the rows are
    effects or importances of single heads, `{"effects": {metric: [{"layer", "head", "difference", "low", "high"}]}}`; if they
    are curves, `{"curves": ...}`, see `curves_of`; if they are speeds of published systems, `{"speedups": ...}`.
    """
    name, data = body.text("name"), body.text("data")
    body.done()
    suffix = PurePath(name).suffix.lower()
    if suffix not in READERS:
        raise invalid_argument("name", f"must end with {', '.join(READERS)}")
    try:
        found = READERS[suffix](base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError, RecursionError, KeyError, TypeError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise invalid_argument("data", f"is no {suffix} file that bertscope writes") from error
    if isinstance(found, dict):
        yield {"report": found}
        return
    if not found:
        raise invalid_argument("data", "has no rows")
    if effects := _effects(found):
        yield {"effects": effects}
    elif curves := curves_of(found):
        yield {"curves": curves}
    elif speedups := _speedups(found):
        yield {"speedups": speedups}
    columns = list(dict.fromkeys(name for row in found for name in row))[:MAX_COLUMNS]
    rows = [[row.get(column) for column in columns] for row in found[:MAX_ROWS]]
    yield {"table": plain({"columns": columns, "rows": rows, "total": len(found)})}


def _json(raw: bytes) -> Rows | dict[str, Any]:
    """Reads a document: a benchmark as it is, of others the rows of their longest list."""
    document = json.loads(raw)
    if not isinstance(document, (dict, list)):
        raise TypeError("a document is an object or a list")
    if isinstance(document, dict) and {"machine", "models", "baseline"} <= document.keys():
        report: dict[str, Any] = plain(document)
        return report
    if isinstance(document, dict) and "importance" in document:
        return _importances(document["importance"])
    if isinstance(document, dict) and {"studies", "summary"} <= document.keys():
        return [row for study in document["studies"] for row in _systems(study)]
    lists = [document] if isinstance(document, list) else [value for value in document.values() if isinstance(value, list)]
    rows = [each for each in lists if each and all(isinstance(one, dict) for one in each)]
    if not rows:
        raise invalid_argument("data", "has no list of results in it")
    return [row for entry in max(rows, key=len) for row in _by_metric(entry)]


def _importances(grid: list[list[float]]) -> Rows:
    """Returns a row for each head of a ranking, [layers][heads]."""
    return [
        {"layer": layer, "head": head, "importance": value} for layer, row in enumerate(grid) for head, value in enumerate(row)
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
            row[prefix + name] = json.dumps(value) if isinstance(value, list) else value
    return row


def _lines(raw: bytes) -> Rows:
    return [_flat(json.loads(line)) for line in raw.decode().splitlines() if line.strip()]


def _delimited(delimiter: str) -> Callable[[bytes], Rows]:
    def read(raw: bytes) -> Rows:
        reader = csv.DictReader(io.StringIO(raw.decode("utf-8-sig")), delimiter=delimiter)
        return [{name: _value(value) for name, value in row.items() if isinstance(name, str)} for row in reader]

    return read


def _value(text: Any) -> Any:
    """Returns the number that a cell holds, None for an empty one, else the text."""
    if not isinstance(text, str) or not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parquet(raw: bytes) -> Rows:
    if importlib.util.find_spec("pyarrow") is None:
        raise invalid_argument("name", "needs the extra \"parquet\": in a checkout, pip install '.[parquet]'")
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(raw))
    rows: Rows = [_flat(row) for row in table.to_pylist()]
    return rows


def _effects(rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Returns the effects of single heads by metric; empty unless the rows are such."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        layer, head = row.get("layer"), row.get("head")
        # Removing a head of high importance is worse, as is a rise of the loss.
        difference = row.get("difference", row.get("importance"))
        if layer in PLACES and head in PLACES and isinstance(difference, (int, float)):
            number = {name: plain(row.get(name)) for name in ("low", "high")}
            effect = {"layer": layer, "head": head, "difference": plain(difference)} | number
            found.setdefault(str(row.get("metric", "difference" if "difference" in row else "importance")), []).append(effect)
    return found


def _speedups(rows: Rows) -> list[dict[str, Any]]:
    """Returns how much faster systems are than their baseline, each with the length; empty unless the rows say so."""
    found = []
    for row in rows:
        ratio = {name: row.get(f"latency_speedup.{name}", row.get(f"latency_speedup_{name}")) for name in RATIO}
        value = row.get("latency_speedup.value", row.get("latency_speedup"))
        if isinstance(value, (int, float)) and isinstance(row.get("system"), str):
            length = row.get("length")
            found.append({"system": row["system"], "length": length, "ratio": plain({"value": value} | ratio)})
    return found


READERS: MappingProxyType[str, Callable[[bytes], Rows | dict[str, Any]]] = MappingProxyType(
    {".json": _json, ".jsonl": _lines, ".csv": _delimited(","), ".tsv": _delimited("\t"), ".parquet": _parquet}
)
