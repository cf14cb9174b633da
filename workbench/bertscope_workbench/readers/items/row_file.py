"""Writes rows to a file that is whole at any time: .csv, .jsonl or .parquet, by the suffix of its name.

A row is one write. If the disk is full, or the process is interrupted, the part of a row that was written is taken back; a
process that is killed leaves at most one line without an end, which is dropped when the file is opened again. The rows of a
Parquet file, which cannot grow, are first written to FILE.journal, as JSON Lines.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from bertscope import FailedPrecondition, InvalidArgument
from bertscope.errors import invalid_argument

from bertscope_workbench.readers.items import parquet
from bertscope_workbench.readers.items.formats import FORMATS, Row, WrittenRow, not_ours

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PARQUET = ".parquet"
ROW_FORMATS = (*FORMATS, PARQUET)
JOURNAL = ".journal"


class RowFile:
    """A file that rows are added to. Its columns are those of its first row."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Opens a file; without `resume` it must not have rows. Raises OSError, InvalidArgument for a name with another suffix,
        and FailedPrecondition for a file that has rows, or that another process writes."""
        suffix = path.suffix.lower()
        if suffix not in ROW_FORMATS:
            raise invalid_argument("output", f"{path}: the name must end with {', '.join(ROW_FORMATS)}")
        require_regular(path)
        self.path = path
        self._is_parquet = suffix == PARQUET
        self._grows = path.with_name(path.name + JOURNAL) if self._is_parquet else path
        self._format = FORMATS.get(suffix, FORMATS[".jsonl"])
        if not resume and any(each.exists() and each.stat().st_size for each in {path, self._grows}):
            raise FailedPrecondition(
                f"{path} exists; go on with it by resume=True, or write to another file", reason="CLIENT_SIDE"
            )
        self._unpacked = self._is_parquet and path.exists() and not self._grows.exists()
        if self._unpacked:
            parquet.unpack(path, self._grows)
        self._file = opened_alone(self._grows, os.O_RDWR | os.O_APPEND, path)
        self._whole = self._earlier = (0, 0)  # Bytes and rows are one value: a signal comes before or after it is set.
        self.columns: tuple[str, ...] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def rows(self) -> int:
        """The rows that the file has."""
        return self._whole[1]

    def read(self) -> Iterator[WrittenRow]:
        """Yields the rows of an earlier run, and drops what was cut. To be read to its end before a row is added.

        Raises InvalidArgument, and drops nothing, for a file that another program wrote.
        """
        with self._grows.open("rb") as file:
            for row in self._format.read(file, self._grows):
                self.columns = self.columns or tuple(row.cells)
                self._whole = self._earlier = (row.end, self.rows + 1)
                yield row
            if not self.rows:
                file.seek(0)
                self._check_beginning(file.readline())
        os.ftruncate(self._file, self._whole[0])

    def _check_beginning(self, line: bytes) -> None:
        """Checks that what is dropped is a first row that was cut."""
        if not any(line[: len(known)] == known[: len(line)] for known in self._format.beginnings):
            raise not_ours(self._grows, 1, "it begins otherwise")

    def same(self, row: Row, written: Row) -> bool:
        """Returns whether a row is, as far as it goes, one that was written."""
        return all(written.get(name) == value for name, value in self._format.cells(row).items())

    def append(self, row: Row) -> None:
        """Adds a row. Raises OSError, and InvalidArgument for a row with other columns than the first."""
        data = self._format.line(row)
        if self.columns is None:
            self.columns = tuple(row)
            data = self._format.header(self.columns) + data
        elif tuple(row) != self.columns:
            raise other_columns(self.path, self.columns, tuple(row))
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
            self._whole = (self._whole[0] + len(data), self.rows + 1)
        except BaseException:
            os.ftruncate(self._file, self._whole[0])
            raise

    def end(self, *, complete: bool) -> None:
        """Makes the file whole on the disk; one that nothing was added to stays as it is. Raises OSError."""
        added = self._whole != self._earlier
        if not os.fstat(self._file).st_size:
            self._grows.unlink(missing_ok=True)
        elif not self._is_parquet:
            os.fsync(self._file)
        else:
            if added or (complete and not self._unpacked):
                parquet.pack(self._grows, self.path)
            if complete or (self._unpacked and not added):
                self._grows.unlink()


def require_regular(path: Path) -> None:
    """Raises InvalidArgument for a folder, or another thing that is no file to write to."""
    if path.exists() and not path.is_file():
        raise invalid_argument("output", f"{path} is no regular file; write to another file")


def opened_alone(file: Path, flags: int, path: Path) -> int:
    """Opens a file, which need not exist, and locks it until it is closed. Raises OSError, and FailedPrecondition if another
    process writes `path` by it."""
    opened = os.open(file, flags | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            with suppress(InterruptedError):
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        raise FailedPrecondition(f"another process writes {path}; let it end", reason="CLIENT_SIDE") from None
    except BaseException:
        os.close(opened)
        raise
    return opened


def other_columns(path: Path, before: Sequence[str], now: Sequence[str]) -> InvalidArgument:
    """Returns the error of a row that does not belong to the others."""
    missing, more = [name for name in before if name not in now], [name for name in now if name not in before]
    difference = "; ".join(
        said
        for said, names in ((f"no {', '.join(missing)}", missing), (f"also {', '.join(more)}", more), ("another order", ["-"]))
        if names
    )
    return invalid_argument("items", f"an item has other columns than the rows of {path} ({difference})")
