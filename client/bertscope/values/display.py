"""Shows results: a short line at a prompt, a table or a picture in a notebook, a pandas table.

pandas is an extra, and is imported only when a table is requested.
"""

from __future__ import annotations

import dataclasses
import html
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    import pandas as pd

MAX_TEXT, MAX_ITEMS, MAX_LINE = 40, 4, 240
MAX_WEIGHTS = 300_000
"""The most weights of maps that a notebook draws by itself: a page with more takes megabytes in the notebook's file."""
PAGE_PIXELS = 600


Class = TypeVar("Class")


@overload
def record(kind: type[Class], /) -> type[Class]: ...


@overload
def record(*, frozen: bool = True, eq: bool = True) -> Callable[[type[Class]], type[Class]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(kind: Any = None, /, *, frozen: bool = True, eq: bool = True) -> Any:
    """Makes a class a frozen dataclass that a prompt shows in one line."""

    def made(kind: type[Class]) -> type[Class]:
        kind.__repr__ = short_repr  # type: ignore[method-assign]
        return dataclasses.dataclass(frozen=frozen, eq=eq)(kind)

    return made if kind is None else made(kind)


class ShownAsTable:
    """A result that a notebook shows as its table."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns the table."""
        raise NotImplementedError

    def _repr_html_(self) -> str | None:
        try:
            found: str | None = self.to_pandas()._repr_html_()  # type: ignore[operator]  # pandas has it, its stubs don't
        except ImportError:
            return None  # It is shown as text without pandas.
        return found


def short_repr(result: Any) -> str:
    """Returns a line of a dataclass with its fields, long ones cut: an array as its shape, a text as its beginning."""
    fields = ", ".join(f"{field.name}={_short(getattr(result, field.name))}" for field in dataclasses.fields(result))
    line = f"{type(result).__name__}({fields})"
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 4]}...)"


def short_list(results: tuple[Any, ...]) -> str:
    """Returns a line of a list of results: their number, and the first."""
    first = f": {results[0]!r}{', ...' if results[1:] else ''}" if results else ""
    return f"<{type(results).__name__} of {len(results)}{first}>"


def data_frame(rows: Any, columns: list[str] | None = None, whole: Iterable[str] = ()) -> pd.DataFrame:
    """Returns rows, or columns by name, as a pandas table. Raises ImportError, naming it, without pandas.

    Columns have pandas' types with missing values (Int64, Float64, boolean, string); None, NaN and "" become pandas.NA. `whole`
    names columns of integers of which every one may be missing. Lists, such as vectors, stay objects.
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
}
_TEXTS = frozenset({
    "text", "text_pair", "filled", "filled_pair", "token", "object", "prime", "answer", "receiver", "name", "partner",
    "pattern", "interval_method", "no_interval", "relation", "subject", "objects", "label", "word",
})  # fmt: skip
"""Columns of texts, of which every one may be missing; other columns of which every value is missing are of numbers."""


def _is_numeric(values: Any) -> bool:
    kind = getattr(values, "dtype", None)
    return kind is not None and kind.kind in _KINDS


def _kind(column: pd.Series[Any]) -> str:
    """Returns the name of a column's type with missing values."""
    from pandas.api.types import infer_dtype

    if _is_numeric(column):
        return _KINDS[column.dtype.kind]
    found = infer_dtype(column, skipna=True)
    empty = "string" if column.name in _TEXTS else "Float64"
    return empty if found == "empty" else _INFERRED.get(found, "object")


def page_html(page: str) -> str:
    """Returns a whole page within a notebook."""
    return f'<iframe srcdoc="{html.escape(page)}" width="100%" height="{PAGE_PIXELS}" style="border:0"></iframe>'


def _short(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_TEXT else f"{value[: MAX_TEXT - 3]}...")
    numpy = sys.modules.get("numpy")  # Imported by whatever has made an array.
    if numpy is not None and isinstance(value, numpy.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return repr(dict(value)) if len(repr(value)) <= MAX_TEXT else f"{{{len(value)} entries}}"
    if isinstance(value, (tuple, list)):
        plain = len(value) <= MAX_ITEMS and not any(dataclasses.is_dataclass(item) for item in value)
        return repr(value) if plain and len(repr(value)) <= 2 * MAX_TEXT else f"({len(value)} items)"
    return f"<{type(value).__name__}>" if dataclasses.is_dataclass(value) else repr(value)
