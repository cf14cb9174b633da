"""How far long work is: on stderr, and only on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bertscope.ablation import SweepTable
from bertscope.cli.output import console
from bertscope.sweeps import HeadSweep

COUNTED = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows that something runs, and for how long."""
    with _progress(TimeElapsedColumn()) as progress:
        progress.add_task(what, total=None)
        yield


def watch(sweep: HeadSweep) -> SweepTable:
    """Waits for the end of a sweep, and shows how many effects have come."""
    with _progress(*COUNTED) as progress:
        task = progress.add_task("sweeping", total=sweep.start.total)
        for _ in sweep:
            progress.advance(task)
        return sweep.table()


def _progress(*columns: ProgressColumn) -> Progress:
    screen = console(stderr=True)
    first = SpinnerColumn(), TextColumn("{task.description}", markup=False)
    return Progress(*first, *columns, console=screen, transient=True, disable=not screen.is_terminal)
