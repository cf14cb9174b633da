"""Temporary folders. A server removes the folders that killed ones left behind."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import Self

from bertscope_service.checkpoints import locked_folders
from bertscope_service.errors import FailedPrecondition

PREFIX = "bertscope-scratch-"


class TemporaryFolder:
    """A temporary folder that is deleted with this object, or earlier by `remove` or at the end of a `with` block.

    While it exists, this process holds a lock on it; see `locked_folders`.
    """

    def __init__(self) -> None:
        """Makes the folder. Raises FailedPrecondition."""
        try:
            made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
            folder, handle = locked_folders.lock(made, made.name.removeprefix("."))
        except OSError as error:
            message = f"the server has no temporary folder to work in ({error.strerror}); set TMPDIR to one that it may use"
            raise FailedPrecondition(message, "FOLDER_UNWRITABLE") from error
        self.folder = folder
        self.remove = weakref.finalize(self, locked_folders.release, folder, handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_abandoned() -> None:
    """Removes the temporary folders of processes that are gone."""
    try:
        place = Path(tempfile.gettempdir())
    except FileNotFoundError:  # no writable one; only calls that need one fail
        return
    locked_folders.remove_abandoned(place.glob(f"{PREFIX}*"))
