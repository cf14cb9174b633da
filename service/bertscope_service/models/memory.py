"""Frees memory that a load leaves behind."""

from __future__ import annotations

import ctypes
import sys
import traceback
from functools import cache
from typing import Any


def forget_locals(error: BaseException) -> None:
    """Clears the local variables of all ended functions in the tracebacks of an error, its causes and its contexts.

    The tracebacks can still be printed. An error keeps the frames of these functions, a frame may keep a model that is half
    read, and a reference to the error (by a failed task, itself a variable of one of the frames) keeps all of it until cyclic
    garbage collection.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        traceback.clear_frames(found.__traceback__)
        waiting += [found.__cause__, found.__context__]


def give_back() -> None:
    """Returns freed memory to the system. Takes some milliseconds, without Python's lock; does nothing with another C library.

    glibc keeps freed memory in an arena for each thread that ever allocated, and every thread that loads a model ends
    afterwards.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Returns glibc's function, None with another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found
