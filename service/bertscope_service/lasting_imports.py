"""Imports that take long and stay: what they make is kept out of garbage collection."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Lets the collector ignore for good all objects that exist when the block ends; the block imports libraries.

    Nothing that an import makes is garbage, and the collector would scan it again and again: some 450,000 objects, half a
    second each time. Begin it before models are made, for those may be unloaded; a model that exists already is freed like any
    other by its last reference, but not if only a cycle of references keeps it.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
        atexit.register(gc.unfreeze)  # or libraries would report that their objects leaked
    finally:
        if collects:
            gc.enable()
