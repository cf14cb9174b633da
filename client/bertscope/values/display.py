"""Shows results: a short line at a prompt, a table or a picture in a notebook, a pandas table.

pandas is an extra, and is imported only when a table is requested.
"""

from __future__ import annotations

import dataclasses
import html
import sys
from collections.abc import Callable, Mapping
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


def data_frame(rows: Any, columns: list[str] | None = None) -> pd.DataFrame:
    """Returns rows, or columns by name, as a pandas table. Raises ImportError, naming it, without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from error
    return pandas.DataFrame(rows, columns=columns)


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
