"""Disturbs the command while it writes rows."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.patience import wait_until

ALONE = ("--batch-tokens", "1", "--runtime", "torch")
"""Every text runs alone, and by one runtime: what shares a batch with it, or another runtime, moves its seventh digit."""

COMMAND = [sys.executable, "-c", "from bertscope_workbench.command.app import main; main()"]


def rows_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


def during(path: Path, rows: int, event: Callable[[], object]) -> threading.Thread:
    """Does something as soon as a file has some rows."""

    def wait() -> None:
        wait_until(lambda: rows_of(path) >= rows, f"there are {rows} rows", 300)
        event()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread
