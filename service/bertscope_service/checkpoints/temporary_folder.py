"""Temporary folders. A server removes the folders that killed ones left behind."""

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


class TemporaryFolder:
    """A temporary folder that is deleted with this object, or earlier by `remove` or at the end of a `with` block.

    While it exists, this process holds a lock on it, which ends with the process for any reason.
    """

    def __init__(self) -> None:
        """Makes the folder. Raises FailedPrecondition."""
        try:
            folder = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            message = f"the server has no temporary folder to work in ({error.strerror}); set TMPDIR to one that it may use"
            raise FailedPrecondition(message, "FOLDER_UNWRITABLE") from error
        # It gets the name that other servers search for only when it is locked. If folders can't be locked it keeps the first
        # name, and no other server removes it.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = folder.rename(folder.with_name(folder.name.removeprefix(".")))
        self.folder = folder
        self.remove = weakref.finalize(self, _remove, folder, handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_abandoned() -> None:
    """Removes the folders of processes that are gone: those of our user that nobody has locked."""
    try:
        place = Path(tempfile.gettempdir())
    except FileNotFoundError:  # no writable one; only calls that need one fail
        return
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process holds it, or has removed it
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
