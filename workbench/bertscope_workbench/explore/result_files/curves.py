"""Finds the curves in the rows of a result: scores by layer, or by the share of heads that a greedy sweep removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]

ACROSS = ("share_removed", "layer")
"""The columns that curves may go over, in order of preference."""
BESIDE = frozenset({*ACROSS, "removed", "head", "seed", "seed_low", "seed_high", "mcnemar_p", "vectors", "largest_dimension"})
"""Columns of numbers that no curve shows."""
ENDS = (("low", "high"), ("interval.low", "interval.high"))
"""The columns of an interval's ends."""
INTERVAL_OF = ("difference", "accuracy", "share", "score", "value")
"""The measures that a row's interval may be of: the first one that the rows have."""
MOST = 6
"""Curves that can be told apart in one picture."""
MAX_METRICS = 50
"""Metrics and measures that the page lets one choose from."""
MAX_WORDS = 20
"""Columns of words that are looked at for what tells curves apart."""
FIRST = "metric"
"""A column whose values have scales of their own, and so pictures of their own."""


def curves_of(rows: Rows) -> dict[str, Any] | None:
    """Returns `{"across": column, "measures": {measure: [{"name", "points": [{"x", "y", "low", "high"}]}]}}`, None if the rows
    are no curves: a curve has at least two points, and one at each place."""
    across = next((name for name in ACROSS if all(_is_number(row.get(name)) for row in rows)), None)
    if across is None or any(row.get("head") is not None for row in rows):
        return None
    by_metric: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_metric.setdefault(row.get(FIRST), []).append(row)
    if len(by_metric) > MAX_METRICS:
        return None
    found: dict[str, Any] = {}
    for metric, own in by_metric.items():
        found |= {f"{metric}: {name}" if metric else name: series for name, series in _measures(own, across).items()}
    return {"across": across, "measures": found} if found else None


def _measures(rows: Rows, across: str) -> dict[str, list[dict[str, Any]]]:
    """Returns the curves of each measure."""
    groups = _groups(rows, across)
    columns = dict.fromkeys(name for row in rows for name in row)
    ends = {end for pair in ENDS for end in pair}
    measures = [
        name for name in columns if name not in BESIDE | ends and all(_is_number(row.get(name), also_none=True) for row in rows)
    ][:MAX_METRICS]
    bounded = next((name for name in INTERVAL_OF if name in measures), None)
    found: dict[str, list[dict[str, Any]]] = {}
    for measure in measures:
        series = [
            {"name": name, "points": [_point(row, across, measure, bounded) for row in own if _is_number(row.get(measure))]}
            for name, own in groups.items()
        ]
        if series := [one for one in series if len(one["points"]) > 1]:
            found[measure] = series
    return found


def _groups(rows: Rows, across: str) -> dict[str, list[Mapping[str, Any]]]:
    """Splits rows by as few columns of words as it takes to have each place once; empty if that makes too many."""
    words = [name for name, value in rows[0].items() if isinstance(value, str) and name != FIRST][:MAX_WORDS]
    chosen: list[str] = []
    for column in (None, *words):
        chosen += [column] if column else []
        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            found.setdefault(", ".join(str(row.get(name)) for name in chosen), []).append(row)
        if len(found) > MOST:
            chosen = chosen[:-1]
        elif all(len({row[across] for row in own}) == len(own) for own in found.values()):
            return {name: sorted(own, key=lambda row: float(row[across])) for name, own in found.items()}
    return {}


def _point(row: Mapping[str, Any], across: str, measure: str, bounded: str | None) -> dict[str, Any]:
    point: dict[str, Any] = {"x": row[across], "y": row[measure]}
    if measure == bounded:
        for low, high in ENDS:
            if _is_number(row.get(low)) and _is_number(row.get(high)):
                point |= {"low": row[low], "high": row[high]}
    return point


def _is_number(value: Any, *, also_none: bool = False) -> bool:
    return (also_none and value is None) or (isinstance(value, (int, float)) and not isinstance(value, bool))
