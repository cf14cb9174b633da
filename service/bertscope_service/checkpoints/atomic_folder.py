"""Folders that appear complete or not at all."""

from __future__ import annotations

import errno
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from bertscope_service.checkpoints.locked_folders import SAVING_PREFIX, UNFINISHED_PREFIX, lock, release, remove_abandoned
from bertscope_service.errors import AlreadyExists, FailedPrecondition

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk or an exhausted quota."""

TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
"""Errors of a folder that another process has just made."""


def check_vacant(folder: Path) -> None:
    """Raises AlreadyExists for a folder that holds something, FailedPrecondition for a path that can't become a folder."""
    try:
        folder.stat()
        taken = not folder.is_dir() or any(folder.iterdir())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: not a possible path
        raise unwritable(folder, error) from error
    if taken:
        raise _taken(folder)


def check_writable(folder: Path) -> None:
    """Raises what `check_vacant` raises, and FailedPrecondition where no folder can be made. It makes one, and removes it."""
    check_vacant(folder)
    nearest = next(parent for parent in folder.parents if parent.exists())
    try:
        tempfile.TemporaryDirectory(prefix=SAVING_PREFIX, dir=nearest).cleanup()
    except OSError as error:
        raise unwritable(folder, error) from error


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yields a new folder beside `folder`, which is renamed to it when the block ends. If the block fails, nothing remains.
    What a killed process left there is removed.

    Raises AlreadyExists for a folder that holds something, FailedPrecondition if it can't be written or the disk is full.
    """
    check_vacant(folder)
    token = secrets.token_hex(6)
    made = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent.glob(f"{SAVING_PREFIX}*"))
        with ExitStack() as owned:
            new = folder.parent / f"{UNFINISHED_PREFIX}{token}"
            new.mkdir()
            beside, handle = lock(new, f"{SAVING_PREFIX}{token}")
            owned.callback(release, beside, handle)
            yield beside
            _share(beside)
            check_vacant(folder)  # another process may have written there meanwhile
            beside.replace(folder)
    except (OSError, SafetensorError) as error:
        if getattr(error, "errno", None) in TAKEN:
            raise _taken(folder) from error
        raise unwritable(folder, error) from error
    finally:
        with suppress(OSError):  # not empty: the new folder is there
            for parent in made:
                parent.rmdir()


def _share(folder: Path) -> None:
    """Gives all files in a new folder the permissions that the umask allows, like the folder's.

    safetensors writes files that only their owner may read, whatever the umask.
    """
    # Reading the umask would change it for a moment, for all threads; a new folder's mode shows it.
    mode = stat.S_IMODE(folder.stat().st_mode) & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def _taken(folder: Path) -> AlreadyExists:
    return AlreadyExists(f"{folder} is not empty; name a folder that is not there yet", "FOLDER_NOT_EMPTY", folder=folder)


def unwritable(folder: Path, error: Exception) -> FailedPrecondition:
    """Returns the error of a folder that can't be written, or whose disk is full."""
    # safetensors has neither a class nor an errno for it, only a message.
    if getattr(error, "errno", None) in FULL or any(f"(os error {number})" in str(error) for number in FULL):
        message = f"the disk of {folder} is full; make room, or name a folder on another disk"
        return FailedPrecondition(message, "DISK_FULL", folder=folder)
    why = getattr(error, "strerror", None) or error
    message = f"{folder} can't be written: {why}; name a folder that the server may make"
    return FailedPrecondition(message, "FOLDER_UNWRITABLE", folder=folder)
