"""Reads a file of standard input, by the end of its name, the argument, and writes events as JSON, one a line.

A file that can't be shown is an event `{"wrong": why}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from .drawings import events_of
from .limits import MEMORY, limit
from .readers import WrongFile


def main() -> None:
    """Reads, limited in memory and processor time, and writes."""
    limit()
    for event in _events(sys.argv[1], sys.stdin.buffer.read()):
        sys.stdout.write(json.dumps(event, separators=(",", ":"), allow_nan=False) + "\n")


def _events(suffix: str, raw: bytes) -> Iterator[dict[str, Any]]:
    try:
        yield from events_of(suffix, raw)
    except WrongFile as wrong:
        yield {"wrong": str(wrong)}
    except MemoryError:
        yield {"wrong": f"takes more than {MEMORY} to read; take a part of it"}


if __name__ == "__main__":
    main()
