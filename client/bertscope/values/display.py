"""Shows results: a few lines with numbers at a prompt, a table or a picture in a notebook, a pandas table.

pandas is an extra, and is imported only when a table is requested or shown.
"""

from __future__ import annotations

import dataclasses
import html
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

from bertscope.values.columns import Column

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

LINE, LINES = 118, 14
"""The length of a line, and the number of lines, of what a prompt shows."""
MAX_TEXT, MAX_VALUES, MAX_LINE = 40, 4, 160
BEST_ROWS = 10


Class = TypeVar("Class")


@overload
def record(kind: type[Class], /) -> type[Class]: ...


@overload
def record(*, frozen: bool = True, eq: bool = True) -> Callable[[type[Class]], type[Class]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(kind: Any = None, /, *, frozen: bool = True, eq: bool = True) -> Any:
    """Makes a class a frozen dataclass that a prompt shows in a few lines."""

    def made(kind: type[Class]) -> type[Class]:
        if not issubclass(kind, ShownAsTable):
            kind.__repr__ = short_repr  # type: ignore[method-assign]
        return dataclasses.dataclass(frozen=frozen, eq=eq, repr=False)(kind)

    return made if kind is None else made(kind)


class ShownAsTable:
    """A result that a prompt and a notebook show as the best rows of its table."""

    __slots__ = ()
    _best: ClassVar[str | None] = None
    """The column whose largest values, in magnitude, are the best rows; None for the order of the table."""
    _table: ClassVar[tuple[Column, ...]] = ()
    """The columns, of a table whose columns are always the same."""
    _whole: ClassVar[tuple[str, ...]] = ()
    """The columns of whole numbers of which every one may be missing."""

    def _rows(self) -> Iterable[Sequence[Any]]:
        """Returns the rows, with the values of the declared columns; a result without these overrides `columns`."""
        raise NotImplementedError

    def columns(self) -> Mapping[str, Sequence[Any] | npt.NDArray[Any]]:
        """Returns the table: the values of each column, by name."""
        rows = [*self._rows()]
        return {column.name: [row[place] for row in rows] for place, column in enumerate(self.declared())}

    def declared(self) -> tuple[Column, ...]:
        """Returns the declared columns; none of a result that overrides `columns`."""
        return self._table

    def records(self) -> list[dict[str, Any]]:
        """Returns the rows of the table, each with its values by name."""
        columns = self.columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_pandas(self) -> pd.DataFrame:
        """Returns the table, with the columns of `columns`. Needs the extra "pandas"."""
        return data_frame(self.columns(), whole=self._whole)

    def _heading(self) -> str:
        """Returns a line that says what was measured."""
        return brief(self, LINE)

    def _best_rows(self) -> tuple[pd.DataFrame, str]:
        """Returns the best rows, and how many more there are. Raises ImportError without pandas."""
        frame = self.to_pandas()
        more = len(frame) - BEST_ROWS
        if more <= 0:
            return frame, ""
        rest = f"... and {more:,} more {'row' if more == 1 else 'rows'} in to_pandas()"
        if self._best not in frame:
            return frame.head(BEST_ROWS), rest
        order = frame[self._best].abs().sort_values(ascending=False, kind="stable").index[:BEST_ROWS]
        return frame.loc[order], f"{rest}; these have the largest {self._best}"

    def __repr__(self) -> str:
        try:
            frame, more = self._best_rows()
        except ImportError:
            return short_repr(self) if dataclasses.is_dataclass(self) else self._heading()
        if frame.empty:
            return self._heading()
        frame = frame.map(_cell)
        table = frame.to_string(index=False, float_format="{:.4g}".format, line_width=None)
        columns = frame.shape[1]
        while max(map(len, table.splitlines())) > LINE and columns > 1:
            columns -= 1
            table = frame.iloc[:, :columns].to_string(index=False, float_format="{:.4g}".format)
        left = ", ".join(map(str, frame.columns[columns:]))
        notes = [f"... and columns {left}"[:LINE]] if left else []
        heading = self._heading()
        heading = heading if len(heading) <= LINE else f"{heading[: LINE - 3]}..."
        return "\n".join([heading, table, *notes, *([more] if more else [])])

    def _repr_html_(self) -> str | None:
        try:
            frame, more = self._best_rows()
        except ImportError:
            return None  # It is shown as text without pandas.
        table: str = frame._repr_html_()  # type: ignore[operator]  # pandas has it, its stubs don't
        return f"<p>{html.escape(self._heading())}</p>{table}" + (f"<p>{html.escape(more)}</p>" if more else "")


def short_repr(result: Any) -> str:
    """Returns a few lines of a dataclass with its fields: numbers whole, texts cut, an array's type, shape and first values."""
    parts = [f"{name}={_short(value)}" for name, value in _fields(result)]
    line = f"{type(result).__name__}({', '.join(parts)})"
    if len(line) <= LINE:
        return line
    lines = [f"{type(result).__name__}("]
    for part in parts:
        cut = part if len(part) < LINE - 5 else f"{part[: LINE - 9]}..."
        if len(lines) > 1 and len(lines[-1]) + len(cut) + 2 < LINE:
            lines[-1] += f" {cut},"
        else:
            lines.append(f"    {cut},")
    if len(lines) > LINES:
        lines[LINES - 1 :] = ["    ...,"]
    return "\n".join(lines)[:-1] + ")"


def short_list(results: tuple[Any, ...]) -> str:
    """Returns a list of results, a line each: the number, the first ones, and how many more."""
    heading = f"<{type(results).__name__} of {len(results)}>"
    lines = [f"  {index}: {brief(one, LINE - 8)}" for index, one in enumerate(results[:BEST_ROWS])]
    more = [f"  ... and {len(results) - BEST_ROWS:,} more"] if len(results) > BEST_ROWS else []
    return "\n".join([heading, *lines, *more])


def brief(result: Any, room: int = MAX_LINE) -> str:
    """Returns a line of a result: numbers of what it holds, as far as there is room."""
    if not dataclasses.is_dataclass(result):
        return _short(result)[:room]
    line = f"{type(result).__name__}({', '.join(f'{name}={_short(value)}' for name, value in _fields(result))})"
    return line if len(line) <= room else f"{line[: room - 4]}...)"


def counted(noun: str, *sizes: int) -> str:
    """Returns numbers with what they count: "1 text", "2 texts", "12 x 12 heads"."""
    return f"{' x '.join(map(str, sizes))} {noun}{'' if set(sizes) == {1} else 's'}"


def _fields(result: Any) -> list[tuple[str, Any]]:
    """Returns the fields that say something, provenance as the model's name and last."""
    found, models = [], []
    for field in dataclasses.fields(result):
        value = getattr(result, field.name)
        if type(value).__name__ == "Provenance":
            models.append((field.name.replace("provenance", "model"), value.model))
        elif value is not None and not (isinstance(value, (tuple, list, Mapping)) and not value):
            found.append((field.name, value))
    hidden = {field.name for field in dataclasses.fields(result) if not field.repr}
    shown = [pair for pair in found if pair[0] not in hidden]
    return [*(shown or found), *models]


def data_frame(rows: Any, columns: list[str] | None = None, whole: Iterable[str] = ()) -> pd.DataFrame:
    """Returns rows, or columns by name, as a pandas table. Raises ImportError, naming it, without pandas.

    Columns have pandas' types with missing values (Int64, Float64, boolean, string, datetime64 in UTC); None, NaN and "" become
    pandas.NA. `whole` names columns of integers of which every one may be missing. Lists, such as vectors, stay objects.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from error
    if isinstance(rows, Mapping):
        # pandas would make floats of a list of integers with gaps.
        kept = {name: values if _is_numeric(values) else pandas.Series(values, dtype=object) for name, values in rows.items()}
        frame = pandas.DataFrame(kept, columns=columns)
    else:
        frame = pandas.DataFrame([*rows], columns=columns, dtype=object)
    integers = set(whole)
    frame = frame.astype({name: "Int64" if name in integers else _kind(frame[name]) for name in frame.columns})
    return frame.assign(
        **{str(name): frame[name].replace("", pandas.NA) for name in frame.columns if frame[name].dtype == "string"}
    )


_KINDS = {"u": "Int64", "i": "Int64", "f": "Float64", "b": "boolean"}
_INFERRED = {
    "integer": "Int64",
    "floating": "Float64",
    "mixed-integer-float": "Float64",
    "boolean": "boolean",
    "string": "string",
    "datetime": "datetime64[us, UTC]",
}
_TEXTS = frozenset({
    "text", "text_pair", "filled", "filled_pair", "token", "object", "prime", "answer", "receiver", "name", "partner",
    "pattern", "interval_method", "no_interval", "relation", "subject", "objects", "label", "word",
})  # fmt: skip
"""Columns of texts, of which every one may be missing; other columns of which every value is missing are of numbers,"""
_TIMES = frozenset({"ready_time", "measured_time"})
"""or of times."""


def _is_numeric(values: Any) -> bool:
    kind = getattr(values, "dtype", None)
    return kind is not None and kind.kind in _KINDS


def _kind(column: pd.Series[Any]) -> str:
    """Returns the name of a column's type with missing values."""
    from pandas.api.types import infer_dtype

    if _is_numeric(column):
        # Maps have many weights, of single precision.
        return "Float32" if column.dtype in ("float16", "float32") else _KINDS[column.dtype.kind]
    found = infer_dtype(column, skipna=True)
    empty = "string" if column.name in _TEXTS else _INFERRED["datetime" if column.name in _TIMES else "floating"]
    return empty if found == "empty" else _INFERRED.get(found, "object")


def _short(value: Any, depth: int = 0) -> str:
    """Returns a value in one line: of arrays the type, shape and first values, of lists the first items and their number."""
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_TEXT else f"{value[: MAX_TEXT - 3]}...")
    numpy = sys.modules.get("numpy")  # Imported by whatever has made an array.
    if numpy is not None and isinstance(value, numpy.ndarray):
        first = ", ".join(_short(item) for item in value.reshape(-1)[:MAX_VALUES].tolist())
        return f"{value.dtype}{list(value.shape)} [{first}{', ...' if value.size > MAX_VALUES else ''}]"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return _several([f"{_short(key)}: {_short(item, depth + 1)}" for key, item in _first(value.items())], len(value), "{}")
    if isinstance(value, (tuple, list, Set)) and not hasattr(value, "_fields"):
        return _several([_short(item, depth + 1) for item in _first(value)], len(value), "()")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _nested(value, depth)
    return repr(value).replace("\n", " ")


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple, Mapping)) or (hasattr(value, "tolist") and value.shape):
        return _short(value)
    return f"{value[: MAX_TEXT - 3]}..." if isinstance(value, str) and len(value) > MAX_TEXT else value


def _first(values: Any) -> list[Any]:
    return [item for item, _ in zip(values, range(MAX_VALUES), strict=False)]


def _several(items: list[str], number: int, brackets: str) -> str:
    shown = items[:1]
    while len(shown) < len(items) and len(", ".join(shown)) + len(items[len(shown)]) < 2 * MAX_TEXT:
        shown.append(items[len(shown)])
    if number == 1 and brackets == "()":
        return f"({items[0]},)"  # as Python writes it
    more = f", ... {number - len(shown)} more" if number > len(shown) else ""
    return f"{brackets[0]}{', '.join(shown)}{more}{brackets[1]}"


def _nested(value: Any, depth: int) -> str:
    """Returns a result within another: the values of its first fields, without names; three levels down its class alone."""
    if depth > 3:
        return f"<{type(value).__name__}>"
    fields = [item for _, item in _fields(value)]
    # Texts and measured numbers say more than counts and places.
    chosen: list[Any] = [item for item in fields if isinstance(item, (str, float))]
    chosen = chosen or [item for item in fields if isinstance(item, tuple) and dataclasses.is_dataclass(item[0])] or fields
    first = [_short(item, depth + 1) for item in chosen[:3]]
    return f"{type(value).__name__}({', '.join(first)})"
