"""Folders that appear whole or not at all."""

from __future__ import annotations

import errno
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from bertscope_service.errors import AlreadyExists, FailedPrecondition

DRAFT_PREFIX = ".bertscope-"
"""How the names of folders that are being written begin."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of a disk, or of what the server may use of it."""

TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
"""Of a folder that somebody else made in the very last moment."""


def check_vacant(folder: Path) -> None:
    """Raises AlreadyExists for a folder that holds something, FailedPrecondition for a path that can't become one."""
    try:
        folder.stat()
        taken = not folder.is_dir() or any(folder.iterdir())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: no path can be so
        raise _unwritable(folder, error) from error
    if taken:
        raise _taken(folder)


@contextmanager
def draft(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, which becomes it when the block ends. If the block fails, nothing is left of it.

    Raises AlreadyExists for a folder that holds something, FailedPrecondition if it can't be written or the disk is full.
    """
    check_vacant(folder)
    beside = folder.parent / f"{DRAFT_PREFIX}{secrets.token_hex(6)}"
    made = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir()
        yield beside
        check_vacant(folder)  # somebody else may have written there meanwhile
        beside.replace(folder)
    except (OSError, SafetensorError) as error:
        if getattr(error, "errno", None) in TAKEN:
            raise _taken(folder) from error
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        with suppress(OSError):  # not empty: what was to be made is there
            for parent in made:
                parent.rmdir()


def _taken(folder: Path) -> AlreadyExists:
    return AlreadyExists(f"{folder} is not empty; name a folder that is not there yet", "FOLDER_NOT_EMPTY", folder=folder)


def _unwritable(folder: Path, error: Exception) -> FailedPrecondition:
    # safetensors has no class or number for it, only words.
    if getattr(error, "errno", None) in FULL or any(f"(os error {number})" in str(error) for number in FULL):
        message = f"the disk of {folder} is full; make room, or name a folder on another disk"
        return FailedPrecondition(message, "DISK_FULL", folder=folder)
    why = getattr(error, "strerror", None) or error
    message = f"{folder} can't be written: {why}; name a folder that the server may make"
    return FailedPrecondition(message, "FOLDER_UNWRITABLE", folder=folder)
