"""Defines what a test's picture shows: numbers alone, so that files keep them and a page draws them without the server."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bertscope.values.display import record

ACROSS = "layer (0: embeddings)"
"""The horizontal axis of curves over states."""
Number = float | None
"""A number, or None where there is none."""


@record
class Curves:
    """Lines over numbers such as layers."""

    across: str
    """The name of the horizontal axis, such as "layer (0: embeddings)"."""
    places: Sequence[float]
    """Its numbers, ascending."""
    unit: str
    """The name of the vertical axis."""
    lines: Mapping[str, Sequence[Number]]
    """By name: a number for each place. The model's own line is first."""


@record
class Bars:
    """A bar for each name, such as a group of items beside its control."""

    unit: str
    """The name of the axis."""
    rows: Mapping[str, Number]
    """By name: its number."""
    intervals: Mapping[str, tuple[float, float]]
    """By name: the ends of its 95 % interval, for those that have one."""
    line: Number = None
    """A number that all are compared with, such as chance."""


@record
class Grid:
    """A cell for each layer and head, or for each of two kinds of names."""

    rows: Sequence[str]
    """Names of the rows, the first one below."""
    columns: Sequence[str]
    """Names of the columns."""
    across: str
    """The name of the horizontal axis."""
    down: str
    """The name of the vertical axis."""
    unit: str
    """The meaning of a cell's number."""
    values: Sequence[Sequence[Number]]
    """[rows][columns]."""


Picture = Curves | Bars | Grid
KINDS: Mapping[str, type[Curves] | type[Bars] | type[Grid]] = {"curves": Curves, "bars": Bars, "grid": Grid}


def curves(across: str, places: Sequence[float], unit: str, lines: Mapping[str, Sequence[float]]) -> Curves:
    """Returns curves of numbers; NaN becomes a gap."""
    return Curves(
        across, [float(each) for each in places], unit, {name: [number(each) for each in line] for name, line in lines.items()}
    )


def bars(
    unit: str,
    rows: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]] | None = None,
    line: float | None = None,
) -> Bars:
    """Returns bars of numbers; NaN becomes an empty row."""
    ends = {name: (float(low), float(high)) for name, (low, high) in (intervals or {}).items()}
    return Bars(unit, {name: number(value) for name, value in rows.items()}, ends, line)


def grid(
    values: Sequence[Sequence[float]],
    unit: str,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    across: str = "head",
    down: str = "layer",
) -> Grid:
    """Returns a grid, of layers and heads unless rows and columns are named; NaN becomes an empty cell."""
    cells = [[number(each) for each in row] for row in values]
    own_rows = [str(each) for each in range(len(cells))] if rows is None else [*rows]
    own_columns = [str(each) for each in range(len(cells[0]))] if columns is None else [*columns]
    return Grid(own_rows, own_columns, across, down, unit, cells)


def number(value: float) -> Number:
    """Returns a number of Python's, with six significant digits; None for one that is not finite."""
    return float(f"{float(value):.6g}") if math.isfinite(value) else None


def picture_document(picture: Picture | None) -> dict[str, Any] | None:
    """Returns a picture as JSON has it: its kind and its numbers."""
    if picture is None:
        return None
    (kind,) = (name for name, known in KINDS.items() if isinstance(picture, known))
    return {"kind": kind, **vars(picture)}


def read_picture(document: Mapping[str, Any] | None) -> Picture | None:
    """Returns the picture of a document. Raises KeyError and TypeError for one that is none."""
    if document is None:
        return None
    values = dict(document)
    return KINDS[values.pop("kind")](**values)
