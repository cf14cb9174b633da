"""Keeps what long work has found while it runs, so that a run that is ended, in whatever way, can go on."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from bertscope import BertscopeError

from bertscope_workbench.command.options.signals import Ended, ended_by_signals
from bertscope_workbench.command.views.output import Terminated

T = TypeVar("T")

REST = 19
"""A file is written again after so many times the time that it took: that is a twentieth of the run."""


class KeptFile(Generic[T]):
    """The file beside an output that has what was found so far; whole at any time, and removed when the output has all."""

    def __init__(self, path: Path | None, save: Callable[[T, Path], object]) -> None:
        """Without a path nothing is kept. `save` writes what was found."""
        self._path, self._save = path, save
        self._again = 0.0
        self._written = False

    def keep(self, found: Callable[[], T]) -> None:
        """Writes what was found, unless that was done a short time ago. A disk that takes nothing does not end the run."""
        began = time.monotonic()
        if self._path is None or began < self._again:
            return
        with suppress(BertscopeError):  # Nothing has been found yet.
            now = found()
            part = self._path.with_name(f"{self._path.name}.part")
            with suppress(OSError):
                self._save(now, part)
                part.replace(self._path)
                self._written = True
            ended = time.monotonic()
            self._again = ended + REST * (ended - began)

    def drop(self, output: Path | None) -> None:
        """Removes the file, as the `output` has all."""
        if self._written and self._path is not None and self._path != output:
            self._path.unlink(missing_ok=True)


def until_ended(
    work: Callable[[Callable[[], None]], T], partial: Callable[[str], T], kept: KeptFile[T]
) -> tuple[T, BaseException | None]:
    """Returns what the work found; if a signal or an error ended it before its time, what it had found by then, and the
    exception to end with.

    `work` calls what it is given whenever something came; `partial` returns what came so far, with why that is not all, and
    raises BertscopeError if there is nothing. Raises the exception if so.
    """
    try:
        with ended_by_signals() as check:

            def came() -> None:
                check()
                kept.keep(lambda: partial("the process was killed"))

            found = work(came)
    except (BertscopeError, KeyboardInterrupt, Ended) as error:
        ended = Terminated(f"ended by {error}") if isinstance(error, Ended) else error
        try:
            return partial(str(ended) or "interrupted"), ended
        except BertscopeError:
            raise ended from None
    return found, None
