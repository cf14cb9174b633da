"""Reads [NAME=]SOURCE of `--model`, and says at once, without PyTorch, that a folder or a file is missing."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bertscope_service.errors import FailedPrecondition, InvalidArgument


def name_and_source(entry: str) -> tuple[str, str]:
    """Returns the name, empty if none is given, and the source. Raises InvalidArgument without a source."""
    name, equals, source = entry.partition("=")
    # A folder may have "=" in its name; then the part before it is no name.
    if not equals or "/" in name:
        name, source = "", entry
    if not source.strip():
        raise InvalidArgument("model", f"--model {entry!r} names no source; write NAME=SOURCE or SOURCE", "NO_SOURCE")
    return name, source


def require_paths(entries: Iterable[str]) -> None:
    """Raises FailedPrecondition for a path where nothing is. What is no path by its form may be a hub id."""
    for _, source in map(name_and_source, entries):
        if source.startswith(("/", ".", "~")) and _is_missing(os.path.expanduser(source)):
            kind = "file" if source.endswith(".onnx") else "folder"
            raise FailedPrecondition(f"the server has no {kind} {source}", "SOURCE_UNREADABLE", source=source)


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False  # Reading it says why.
    return False
