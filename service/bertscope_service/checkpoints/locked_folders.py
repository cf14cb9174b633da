"""Folders that belong to a process as long as it lives: temporary ones, and models that are being saved.

The owner holds a lock on the folder itself, which the system ends with the process, for any reason. A process id in the name
would not do: it says nothing on another machine with the same disk, or in another container, and the system gives it again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

UNFINISHED_PREFIX = ".bertscope-"
"""Prefix of folders that are being written."""

SAVING_PREFIX = f"{UNFINISHED_PREFIX}saving-"
"""Prefix of those among them that are locked. Folders without "saving-" stay: a server of an
earlier version, which locks none, may be writing one."""


def lock(folder: Path, name: str) -> tuple[Path, int]:
    """Locks a folder that was just made, and renames it to the name that `remove_abandoned` is asked for. Returns its path and
    the handle that holds the lock until it is closed.

    Only a locked folder gets that name. On a disk that locks no folders it keeps the first name, and nobody removes it. Raises
    OSError.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = folder.rename(folder.with_name(name))
    return folder, handle


def release(folder: Path, handle: int) -> None:
    """Removes a folder, unless it has another name by now, and then its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Removes the folders of processes that are gone: those of our user that nobody has locked."""
    for folder in folders:
        with suppress(OSError):  # another process holds it, or has removed it
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def remove_unfinished(roots: Iterable[Path]) -> None:
    """Removes what killed processes left of models that they were saving, anywhere below some folders. Follows no links."""
    for root in roots:
        for place, names, _ in os.walk(root):
            remove_abandoned(Path(place, name) for name in names if name.startswith(SAVING_PREFIX))
            names[:] = [name for name in names if not name.startswith(UNFINISHED_PREFIX)]
