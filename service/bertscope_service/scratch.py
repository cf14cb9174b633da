"""Temporary folders. What a server leaves that is killed, the next one removes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Self

from bertscope_service.errors import FailedPrecondition

PREFIX = "bertscope-scratch-"


class Scratch:
    """A temporary folder that goes with this object, or before, with `remove` or at the end of a `with` block.

    As long as it is there, this process holds a lock on it, which ends with the process however that ends.
    """

    def __init__(self) -> None:
        """Raises FailedPrecondition."""
        try:
            folder = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            message = f"the server has no temporary folder to work in ({error.strerror}); set TMPDIR to one that it may use"
            raise FailedPrecondition(message, "FOLDER_UNWRITABLE") from error
        # Only now does it get a name that others look for: nobody can find it unlocked. Where folders can't be locked it keeps
        # the first one, and nobody else removes it.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = folder.rename(folder.with_name(folder.name.removeprefix(".")))
        self.folder = folder
        self.remove = weakref.finalize(self, _remove, folder, handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def clear_remains() -> None:
    """Remove the folders of processes that are gone: those that belong to our user and that nobody has locked."""
    try:
        place = Path(tempfile.gettempdir())
    except FileNotFoundError:  # none that can be written; only those who need one shall fail
        return
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody holds it, or removed it first
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _remove(folder: Path, handle: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)
