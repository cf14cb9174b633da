"""Finds what can be drawn in the rows of a result, and writes the events of the Results view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .curves import curves_of
from .readers import MAX_COLUMNS, Rows, read

MAX_SHOWN = 2000
"""Rows that the page shows; the file's number of rows is said."""
MAX_METRICS = 50
"""Metrics that the page lets one choose from."""
RATIO = ("low", "high", "verdict", "caveat")
PLACES = range(256)
"""Layers and heads that a grid may have."""

Event = dict[str, Any]


def events_of(suffix: str, raw: bytes) -> Iterator[Event]:
    """Yields `{"report": ...}` for a benchmark and `{"claims": ...}` for claims, see `claims_of`; else
    `{"table": {"columns", "rows", "total"}}`, and before it, if the rows are effects or importances of single heads,
    `{"effects": {metric: [{"layer", "head", "difference", "low", "high"}]}}`; if they are curves, `{"curves": ...}`, see
    `curves_of`; if they are speeds of published systems, `{"speedups": ...}`.

    Raises WrongFile.
    """
    found = read(suffix, raw)
    if isinstance(found, dict):
        yield found
        return
    if effects := _effects(found):
        yield {"effects": effects}
    elif curves := curves_of(found):
        yield {"curves": curves}
    elif speedups := _speedups(found):
        yield {"speedups": speedups}
    columns = list(dict.fromkeys(name for row in found for name in row))[:MAX_COLUMNS]
    rows = [[row.get(column) for column in columns] for row in found[:MAX_SHOWN]]
    yield {"table": {"columns": columns, "rows": rows, "total": len(found)}}


def _effects(rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Returns the effects of single heads by metric; empty unless the rows are such, of few metrics."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        layer, head = row.get("layer"), row.get("head")
        # Removing a head of high importance is worse, as is a rise of the loss.
        difference = row.get("difference", row.get("importance"))
        if layer in PLACES and head in PLACES and isinstance(difference, (int, float)):
            number = {name: row.get(name) for name in ("low", "high")}
            effect = {"layer": layer, "head": head, "difference": difference} | number
            found.setdefault(str(row.get("metric", "difference" if "difference" in row else "importance")), []).append(effect)
            if len(found) > MAX_METRICS:
                return {}
    return found


def _speedups(rows: Rows) -> list[dict[str, Any]]:
    """Returns how much faster systems are than their baseline, each with the length; empty unless the rows say so."""
    found = []
    for row in rows:
        ratio = {name: row.get(f"latency_speedup.{name}", row.get(f"latency_speedup_{name}")) for name in RATIO}
        value = row.get("latency_speedup.value", row.get("latency_speedup"))
        if isinstance(value, (int, float)) and isinstance(row.get("system"), str):
            length = row.get("length")
            found.append({"system": row["system"], "length": length, "ratio": {"value": value} | ratio})
    return found
