"""Where the files of a model may lie, links followed."""

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
    """Folders that all that is read of a source, or written to a folder, must lie in; None: anywhere.

    What is checked is where links lead in that moment. Who may change the folders themselves could exchange a file afterwards:
    whoever checks before reading checks again when that is done.
    """

    roots: tuple[Path, ...] | None = None

    def holds(self, path: Path) -> bool:
        """Whether a path leads into one of the roots. It need not exist."""
        if self.roots is None:
            return True
        try:
            real = path.resolve()
            # Of links in a circle Python before 3.13 says so; later ones leave them in the path.
            whole = not any(part.is_symlink() for part in (real, *real.parents))
            return whole and any(real.is_relative_to(root.resolve()) for root in self.roots)
        except (OSError, RuntimeError, ValueError):  # links in a circle, and what no path can be
            return False

    def check(self, folder: Path) -> None:
        """Look at a model's folder, and as deep below it as any library does that reads it.

        Raises PermissionDenied if it, or a link in it, leads out of the roots; FailedPrecondition for what is no file and no
        folder: reading a pipe would never end. Raises OSError if it can't be read.
        """
        # Where nothing is forbidden, what lies in its folders is not worth looking at: a home folder has any number of sockets.
        for path in itertools.chain([folder], _entries(folder, depth=1 if self.roots is None else 2)):
            if not self.holds(path):
                message = f"{path} leads to where this server reads no models; put the file itself there, not a link"
                raise PermissionDenied(message, "SOURCE_NOT_ALLOWED", source=folder)
            kind = _kind(path)
            if kind and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                message = f"{path} is a pipe, a socket or a device, and no file; remove it"
                raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)


ANYWHERE = Confinement()


def _entries(folder: Path, depth: int) -> Iterator[Path]:
    """What lies in a folder, then what lies in its folders: only once those have been checked, in case they are links."""
    if not folder.is_dir():
        return
    # Not by `glob`, which passes what it may not list.
    entries = list(folder.iterdir())
    yield from entries
    for entry in entries if depth > 1 else ():
        if os.access(entry, os.X_OK):  # or nobody here can open what lies in it
            yield from _entries(entry, depth - 1)


def _kind(path: Path) -> int:
    """The mode of what a path leads to; 0 for a link to nothing, which nobody can read."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0
