"""Cuts a document to what fits an agent's context: arrays to their shape and extremes, lists to some entries.

What is cut is said. The rule is one for all documents: it knows no rpc.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIGNIFICANT_DIGITS = 4
SHOWN_VALUES = 40
"""Arrays and lists of so many numbers are shown whole while there is room."""

EXTREMES = 8
"""The number of largest values of an array that are shown."""

STEPS = (10_000, 200, 100, 50, 25, 12, 6, 3, 1)
"""Numbers of entries of lists that are tried, one after the other, until the answer fits."""

LARGEST_FIRST = "difference"
"""Entries of lists that are cut are ordered by the size of this field, where they have it: the effects that matter stay."""

TEXT_CHARACTERS = 300
"""Longer texts are cut in answers that do not fit otherwise."""


@dataclass
class Reduced:
    """A document that fits, and what was cut from it."""

    answer: Any
    cuts: list[str] = field(default_factory=list)


def reduced(document: Any, budget: int) -> Reduced:
    """Returns the document within `budget` characters of JSON: as little is cut as can be."""
    for most in STEPS:
        found = Reduced(None)
        found.answer = _Reduction(most, found.cuts).value(document, "")
        if len(text(found.answer)) <= budget:
            return found
    names = sorted(document) if isinstance(document, dict) else []
    found.answer = {"parts": names} if len(text(names)) <= budget else {}
    found.cuts = [f"all: the answer takes more than {budget:,} characters however it is cut; read parts of the full result"]
    return found


def text(document: Any) -> str:
    """Returns a document in a line of JSON; numbers that are not finite are null."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass
class _Reduction:
    most: int
    cuts: list[str]

    def value(self, value: Any, path: str) -> Any:
        """Returns a part of a document, cut; `path` is its JSON Pointer."""
        if isinstance(value, dict):
            return {name: self.value(each, f"{path}/{name}") for name, each in value.items()}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, list):
            if value and all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in value):
                return self._array(np.asarray(value), path)
            return self._list(value, path)
        if isinstance(value, str) and self.most <= STEPS[-3] and len(value) > TEXT_CHARACTERS:
            self.cuts.append(f"{path}: {TEXT_CHARACTERS} of {len(value):,} characters")
            return value[:TEXT_CHARACTERS]
        return rounded(value)

    def _list(self, values: list[Any], path: str) -> list[Any]:
        if len(values) <= self.most:
            return [self.value(each, f"{path}/{index}") for index, each in enumerate(values)]
        ordered = sorted(range(len(values)), key=lambda index: -_effect(values[index]))[: self.most]
        is_ordered = any(_effect(each) for each in values)
        how = f"those with the largest {LARGEST_FIRST}" if is_ordered else "the first"
        self.cuts.append(f"{path}: {self.most:,} of {len(values):,} entries, {how}")
        return [self.value(values[index], f"{path}/{index}") for index in ordered]

    def _array(self, values: np.ndarray[Any, Any], path: str) -> Any:
        if values.size <= min(SHOWN_VALUES, 4 * self.most):
            return _nested(values.tolist())
        self.cuts.append(f"{path}: {' x '.join(map(str, values.shape))} numbers, by their extremes")
        return extremes(values, min(EXTREMES, self.most))


def extremes(values: np.ndarray[Any, Any], most: int) -> dict[str, Any]:
    """Returns the shape of an array, its mean, and its largest and smallest values with their indices, which count from 0."""
    flat = np.nan_to_num(values.reshape(-1).astype(np.float64), nan=-math.inf, posinf=math.inf, neginf=-math.inf)
    known = flat[np.isfinite(flat)]
    order = np.argsort(-flat, kind="stable")

    def entries(indices: Any) -> list[Any]:
        return [[*map(int, np.unravel_index(index, values.shape)), rounded(float(flat[index]))] for index in indices]

    found: dict[str, Any] = {"shape": list(values.shape), "mean": rounded(float(known.mean())) if known.size else None}
    found["largest"] = entries(order[:most])
    found["smallest"] = entries(order[::-1][: max(1, most // 2)])
    return found


def rounded(value: Any) -> Any:
    """Returns a number with four significant digits, null for one that is not finite, and anything else as it is."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{SIGNIFICANT_DIGITS}g}")  # the largest number is rounded to infinity
    return short if math.isfinite(short) else None


def _nested(values: Any) -> Any:
    return [_nested(each) for each in values] if isinstance(values, list) else rounded(values)


def _effect(entry: Any) -> float:
    """Returns the size of the first effect in an entry of a list, 0 if there is none."""
    if isinstance(entry, dict):
        if isinstance(own := entry.get(LARGEST_FIRST), (int, float)):
            return abs(own) if math.isfinite(own) else 0.0
        return next((found for part in entry.values() if (found := _effect(part))), 0.0)
    if isinstance(entry, list):
        return next((found for part in entry if (found := _effect(part))), 0.0)
    return 0.0


def all_of(value: Any) -> Any:
    """Returns a part of a document with rounded numbers, and arrays as lists."""
    if isinstance(value, dict):
        return {name: all_of(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return _nested(value.tolist())
    return [all_of(each) for each in value] if isinstance(value, list) else rounded(value)
