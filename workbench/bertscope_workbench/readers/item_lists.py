"""Collects the items of files of any kind: each with the number of its line, or an error that names the file and the line."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import InvalidArgument
from bertscope.errors import callers_lines, invalid_argument
from bertscope.values import validation

from bertscope_workbench.readers.table_rows import Broken, bad_line

T = TypeVar("T")
V = TypeVar("V")


class BadLine(Exception):
    """A line can't be read."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number
        """The line's number."""


class MissingFile(FileNotFoundError):
    """There is no such file; a notebook shows the caller's line alone."""

    _render_traceback_ = callers_lines


class Items(list[T]):
    """The items read from a file; `lines` are the numbers of their lines."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__(items)
        self.lines: list[int] = []
        self.paths: list[Path] = []
        """The file of each item, if they are of several."""


class PartialItems(Items[T]):
    """The items read from a file, of which some could not be."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__(items)
        self.problems: list[InvalidArgument] = []
        """The items that were left out: each error names the file and the line."""


ItemsT = TypeVar("ItemsT", bound=Items[Any])


def require_file(path: Path) -> None:
    """Raises MissingFile if there is no such file, before readers that hand on lines to each other."""
    if not path.exists():
        raise MissingFile(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def made(path: Path, rows: Iterable[tuple[int, V]], item: Callable[[V], T | None], broken: Broken) -> Iterator[tuple[int, T]]:
    """Yields what `item` makes of numbered rows, but None; `broken` is told about a row for which it raises InvalidArgument, or
    BadLine to name another line of it."""
    for number, row in rows:
        try:
            value = item(row)
        except InvalidArgument as error:
            broken(bad_line(path, number, str(error)))
        except BadLine as error:
            broken(bad_line(path, error.number, str(error)))
        else:
            if value is not None:
                yield number, value


def collected(found: ItemsT, items: Iterable[tuple[int, Any]], limit: SupportsIndex | None, path: Path, empty: str) -> ItemsT:
    """Returns `found` with the first `limit` of numbered items. Raises MissingFile without the file, the first of its problems,
    or InvalidArgument that says how the file is `empty`, if there is none."""
    require_file(path)
    for number, value in itertools.islice(items, None if limit is None else validation.positive("limit", limit)):
        found.append(value)
        found.lines.append(number)
    if not found:
        problems = found.problems if isinstance(found, PartialItems) else []
        raise problems[0] if problems else invalid_argument(str(path), empty)
    return found


def no_line(required: tuple[str, ...]) -> str:
    """Returns what the error of a file without items says."""
    return f"has no line to read; write one item per line, with {' and '.join(required)}"
