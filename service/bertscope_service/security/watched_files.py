"""Reads files again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from prometheus_client import Gauge

from bertscope_service.errors import FailedPrecondition, ServiceError

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHECK_SECONDS = 1.0
"""The interval between two checks; new files are used after two of them."""


class Watched(Generic[T]):
    """The parsed content of some files that belong together. `name` is the name of their setting.

    New content is used once it was found twice in a row, for several files are seldom replaced at once, and as a whole: if it
    can't be read or used, the old value stays, a line is logged, and `failing` is 1 until the content can be used. Contents are
    compared, not times: the files are small, and a changed link (how Kubernetes replaces a secret) is noticed as well.
    """

    def __init__(self, name: str, paths: Sequence[Path], parse: Callable[[Sequence[bytes]], T], failing: Gauge) -> None:
        """Raises FailedPrecondition if the files can't be used as they are now."""
        self._name = name
        self._paths = paths
        self._parse = parse
        self._failing = failing.labels(name)
        self._checked = self._found = self._read()
        try:
            self.value = self._evaluate()
        except ServiceError as error:
            raise FailedPrecondition(f"--{name.replace('_', '-')}: {error.message}", error.reason) from error

    def check(self) -> None:
        """Reads the files, and uses new content. Blocks; for one thread at a time."""
        before, self._found = self._found, self._read()
        if self._found != before or self._found == self._checked:
            return
        self._checked = self._found
        try:
            self.value = self._evaluate()
        except ServiceError as error:
            self._failing.set(1)
            logger.warning("%s can't be used as it is now, so what it was stays in force: %s", self._name, error.message)
        except Exception:
            # An error of a parsing library. Nothing may end the watch: later content may be valid.
            self._failing.set(1)
            logger.exception("%s can't be used as it is now, so what it was stays in force", self._name)
        else:
            self._failing.set(0)
            logger.info("%s has changed and is in force", self._name)

    def _read(self) -> list[bytes | str]:
        return [_content(path) for path in self._paths]

    def _evaluate(self) -> T:
        contents: list[bytes] = []
        for content in self._checked:
            if isinstance(content, str):
                raise FailedPrecondition(content, "FILE_UNREADABLE")
            contents.append(content)
        return self._parse(contents)


async def watch(files: Sequence[Watched[Any]]) -> None:
    """Checks all of them periodically, until cancelled."""
    while files:
        await asyncio.sleep(CHECK_SECONDS)
        for watched in files:
            # A disk that does not answer must not stop the loop.
            try:
                await asyncio.to_thread(watched.check)
            except Exception:  # no memory or no thread: the next check may succeed
                logger.exception("could not check files for changes; the check will be repeated")


def _content(path: Path) -> bytes | str:
    """Returns the content of a file, or why it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        return f"{path} can't be read: {error.strerror}"
