"""How far long work is: on stderr, and only on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bertscope.ablation import SweepTable
from bertscope.benchmark import BenchmarkProgress
from bertscope.cli.output import console
from bertscope.compression import CompressionProgress
from bertscope.sweeps import HeadSweep

SHARED = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
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


@contextmanager
def steps(what: str) -> Iterator[Callable[[CompressionProgress], None]]:
    """Shows how many steps of a compression are done, and what is done now."""
    with _progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task(what, total=None)

        def show(event: CompressionProgress) -> None:
            progress.update(task, description=event.detail or what, completed=event.done_steps, total=event.total_steps)

        yield show


@contextmanager
def benchmarking(what: str) -> Iterator[Callable[[BenchmarkProgress], None]]:
    """Shows which part of a benchmark is done, and what is measured now."""
    with _progress(*SHARED) as progress:
        task = progress.add_task(what, total=1.0)

        def show(event: BenchmarkProgress) -> None:
            progress.update(task, description=event.stage or what, completed=event.done)

        yield show


def _progress(*columns: ProgressColumn) -> Progress:
    screen = console(stderr=True)
    first = SpinnerColumn(), TextColumn("{task.description}", markup=False)
    return Progress(*first, *columns, console=screen, transient=True, disable=not screen.is_terminal)
