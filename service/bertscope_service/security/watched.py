"""Files that are read again when they change."""

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

LOOK_SECONDS = 1.0
"""New files are in force after two looks."""


class Watched(Generic[T]):
    """What stands in some files that belong together. `name` is that of the setting which gives them.

    New content counts once it was found twice in a row, for several files are seldom replaced at once, and as a whole:
    what can't be read or used leaves the old value and a line in the log, and `failing` is 1 until something can be used.
    Contents are compared, not times: the files are small, and a link that points elsewhere (how Kubernetes replaces a secret)
    is seen as well.
    """

    def __init__(self, name: str, paths: Sequence[Path], parse: Callable[[Sequence[bytes]], T], failing: Gauge) -> None:
        """Raises FailedPrecondition where the files can't be used as they are now."""
        self._name = name
        self._paths = paths
        self._parse = parse
        self._failing = failing.labels(name)
        self._judged = self._found = self._read()
        try:
            self.value = self._evaluate()
        except ServiceError as error:
            raise FailedPrecondition(f"--{name.replace('_', '-')}: {error.message}", error.reason) from error

    def look(self) -> None:
        """Read the files, and use what is new in them. Blocks; for one thread at a time."""
        before, self._found = self._found, self._read()
        if self._found != before or self._found == self._judged:
            return
        self._judged = self._found
        try:
            self.value = self._evaluate()
        except ServiceError as error:
            self._failing.set(1)
            logger.warning("%s can't be used as it is now, so what it was stays in force: %s", self._name, error.message)
        except Exception:
            # Of a library that reads them. Nothing may end the watch: what comes later may be good.
            self._failing.set(1)
            logger.exception("%s can't be used as it is now, so what it was stays in force", self._name)
        else:
            self._failing.set(0)
            logger.info("%s has changed and is in force", self._name)

    def _read(self) -> list[bytes | str]:
        return [_content(path) for path in self._paths]

    def _evaluate(self) -> T:
        contents: list[bytes] = []
        for content in self._judged:
            if isinstance(content, str):
                raise FailedPrecondition(content, "FILE_UNREADABLE")
            contents.append(content)
        return self._parse(contents)


async def watch(files: Sequence[Watched[Any]]) -> None:
    """Look at all of them again and again, until cancelled."""
    while files:
        await asyncio.sleep(LOOK_SECONDS)
        for watched in files:
            # A disk that does not answer must not stop the loop.
            await asyncio.to_thread(watched.look)


def _content(path: Path) -> bytes | str:
    """What is in a file, or why it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        return f"{path} can't be read: {error.strerror}"
