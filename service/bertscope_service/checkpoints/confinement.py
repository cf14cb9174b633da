"""Allowed places of a model's files, with links followed."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertscope_service.errors import FailedPrecondition, PermissionDenied


@dataclass(frozen=True, slots=True)
class Confinement:
    """Folders that must contain all files read from a source, or written to a folder; None: anywhere.

    The check follows links as they are at that moment. Someone who may change the folders could exchange a file afterwards:
    code that checks before reading checks again after it.
    """

    roots: tuple[Path, ...] | None = None

    def holds(self, path: Path) -> bool:
        """Checks that a path leads into one of the roots. It need not exist."""
        if self.roots is None:
            return True
        try:
            real = path.resolve()
            # For links in a circle Python before 3.13 raises an error; later versions leave them in the path.
            whole = not any(part.is_symlink() for part in (real, *real.parents))
            return whole and any(real.is_relative_to(root.resolve()) for root in self.roots)
        except (OSError, RuntimeError, ValueError):  # links in a circle, or not a possible path
            return False

    def check(self, folder: Path) -> None:
        """Checks a model's folder, as deep as any library reads it.

        Raises PermissionDenied if it, or a link in it, leads out of the roots; FailedPrecondition for anything except files
        and folders: reading a pipe would never end. Raises OSError if it can't be read.
        """
        # Without roots its subfolders are not checked: a home folder may hold any number of sockets.
        for path in itertools.chain([folder], _entries(folder, depth=1 if self.roots is None else 2)):
            if not self.holds(path):
                message = (
                    f"{path} leads out of the folders that this server reads models from; put the file itself there, not a link"
                )
                raise PermissionDenied(message, "SOURCE_NOT_ALLOWED", source=folder)
            kind = _kind(path)
            if kind and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                message = f"{path} is a pipe, a socket or a device, and no file; remove it"
                raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)


ANYWHERE = Confinement()


def _entries(folder: Path, depth: int) -> Iterator[Path]:
    """Yields the entries of a folder, then those of its folders, after those have been checked, in case they are links."""
    if not folder.is_dir():
        return
    # Not with `glob`, which skips folders that it may not list.
    entries = list(folder.iterdir())
    yield from entries
    for entry in entries if depth > 1 else ():
        if os.access(entry, os.X_OK):  # otherwise this process can't open its files
            yield from _entries(entry, depth - 1)


def _kind(path: Path) -> int:
    """Returns the mode of a path's target; 0 for a link to nothing, which nobody can read."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0
