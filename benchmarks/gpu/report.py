"""Runs the parts of the report, each within its time, and prints them as one table."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

Row = tuple[str, str, str, str]
"""A row of the table: what, ours, the other side or the device's limit, ratio."""

WIDTHS = (62, 24, 18, 10)
"""Columns of the table, 120 characters with the spaces between them; a longer cell is cut."""


class OutOfTimeError(Exception):
    """A part took longer than it may."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the report: its heading, the seconds that it may take, what measures it, and the packages that it needs."""

    name: str
    seconds: float
    rows: Callable[[], Iterator[Row]]
    packages: Sequence[str] = ()


def run_parts(parts: Sequence[Part], seconds: float) -> bool:
    """Prints the rows of each part as they come, all parts within so many seconds. Returns whether all ended without an error.

    A part that takes longer than it may is stopped, one that no time is left for is skipped, and the table says so.
    """
    ends, passed = time.monotonic() + seconds, True
    for part in parts:
        began = time.monotonic()
        print(f"\n{part.name}", flush=True)
        limit = min(part.seconds, ends - began)
        if missing := [package for package in part.packages if importlib.util.find_spec(package) is None]:
            print_row((f"  not measured: this interpreter has no {', '.join(missing)}", "", "", ""))
            continue
        if limit < 1:
            print_row(("  skipped: the report's time is over", "", "", ""))
            continue
        try:
            with alarm(limit):
                for row in part.rows():
                    print_row((f"  {row[0]}", *row[1:]))
        except OutOfTimeError:
            print_row((f"  stopped: it may take {limit:.0f} s", "", "", ""))
        except Exception:  # noqa: BLE001 - the other parts are measured all the same
            traceback.print_exc(file=sys.stdout)
            passed = False
        print_row(("", "", "", f"{time.monotonic() - began:.0f} s"))
    return passed


def print_row(row: Row) -> None:
    """Prints a row in columns of equal width."""
    cells = [cell if len(cell) <= width else f"{cell[: width - 3]}..." for cell, width in zip(row, WIDTHS, strict=True)]
    if not any(row[1:]):
        cells = [row[0]]
    print("  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=False)).rstrip(), flush=True)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raises OutOfTimeError inside the block once it has taken so long: in the main thread, between two calls of C."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
