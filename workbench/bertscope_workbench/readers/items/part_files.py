"""Writes one or several files that appear together, when all of them are whole.

Until then they are FILE.part, which only one process writes at a time. However a run ends before, no file appears; a process
that is killed leaves parts, which the next run to the same file writes anew.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Self

from bertscope import FailedPrecondition
from bertscope.errors import CLIENT_SIDE

from bertscope_workbench.readers.items.row_file import opened_alone, require_regular

PART = ".part"


class PartFiles:
    """The files of one run."""

    def __init__(self, path: Path, *, replace: bool, others: Iterable[Path] = ()) -> None:
        """Begins a run whose main file is `path`; `others` are there from an earlier run. Raises OSError, and
        FailedPrecondition if any exists, unless new ones are to `replace` it, or if another process writes them."""
        require_regular(path)
        self.path = path
        self._parts = [part_of(path)]
        self._open = ExitStack()
        self._lock = opened_alone(part_of(path), os.O_WRONLY, path)
        self._before = [each for each in (path, *others) if each.exists()]
        if self._before and not replace:
            self.__exit__()
            message = f"{self._before[0]} exists; put another in its place by replace=True, or write to another file"
            raise FailedPrecondition(message, reason=CLIENT_SIDE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes what is open, and removes what has not become whole."""
        with suppress(OSError):
            self._open.close()
        for part in self._parts:
            part.unlink(missing_ok=True)
        os.close(self._lock)

    def part(self, path: Path) -> Path:
        """Returns the path to write to in the place of `path`."""
        part = part_of(path)
        if part not in self._parts:
            self._parts.append(part)
        return part

    def open(self, path: Path) -> BinaryIO:
        """Opens, empty, the file to write to in the place of `path`; it is closed with the others."""
        return self._open.enter_context(self.part(path).open("w+b"))

    def commit(self, names: Iterable[tuple[Path, Path]] = ()) -> tuple[Path, ...]:
        """Closes all parts and gives them their names, the main one last, in the place of all files that were there.

        Returns the paths. Raises OSError.
        `names` are pairs of a path that was given to `part` and its name now. An empty file does not appear.
        """
        self._open.close()
        now = dict(names)
        paths = [part.with_suffix("") for part in self._parts if part.stat().st_size]
        paths.sort(key=lambda path: path == self.path)
        for path in paths:
            _to_disk(part_of(path))
        for path in self._before:
            path.unlink()
        for path in paths:
            part_of(path).replace(now.get(path, path))
        return tuple(now.get(path, path) for path in paths)


def part_of(path: Path) -> Path:
    """Returns the name of a file that is not whole yet."""
    return path.with_name(path.name + PART)


def _to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
