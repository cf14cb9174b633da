"""Shows the progress of long work on stderr: as it goes on a terminal, elsewhere in a line now and then."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from bertscope_workbench.command.views.output import console, printable

if TYPE_CHECKING:
    from bertscope import (
        BenchmarkProgress,
        CompressionProgress,
        DistillationProgress,
        HeadSweep,
        LoadProgress,
        SiteSweep,
        SweepTable,
        TextsProgress,
        Trace,
    )

    from bertscope_workbench.papers.run import ClaimsProgress

SHARED = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
LINE_SECONDS = 30.0
"""Between two lines of progress where there is no terminal."""
COUNTED = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows that work runs, and for how long."""
    with _progress(TimeElapsedColumn()) as progress:
        progress.add_task(what, total=None)
        yield


def watch(sweep: HeadSweep, earlier: SweepTable | None = None, came: Callable[[], object] = lambda: None) -> SweepTable:
    """Waits for the end of a sweep, and shows how many effects have come, including those of the earlier sweep that it
    resumes; calls `came` at each."""
    with _progress(*COUNTED) as progress:
        task = progress.add_task("sweeping", total=sweep.start.total, completed=earlier.count if earlier else 0)
        for _ in sweep:
            progress.advance(task)
            came()
        return sweep.table()


def tracing(sweep: SiteSweep, came: Callable[[], None]) -> Trace:
    """Waits for the end of a trace, and shows how many pairs are done, of one pair how many effects have come; calls `came`
    at each effect."""
    with _progress(*COUNTED) as progress:
        total = sweep.start.total if sweep.total_pairs == 1 else sweep.total_pairs
        task = progress.add_task("tracing", total=total)
        for number, _ in enumerate(sweep, 1):
            progress.update(task, completed=number if sweep.total_pairs == 1 else sweep.done_pairs)
            came()
        return sweep.table()


@contextmanager
def steps(what: str) -> Iterator[Callable[[CompressionProgress], None]]:
    """Shows how many steps of a compression are done, and the current one."""
    with _progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task(what, total=None)

        def show(event: CompressionProgress) -> None:
            progress.update(task, description=event.detail or what, completed=event.done_steps, total=event.total_steps)

        yield show


@contextmanager
def benchmarking(what: str) -> Iterator[Callable[[BenchmarkProgress], None]]:
    """Shows which share of a benchmark is done, and the current measurement."""
    with _progress(*SHARED) as progress:
        task = progress.add_task(what, total=1.0)

        def show(event: BenchmarkProgress) -> None:
            progress.update(task, description=event.stage or what, completed=event.done)

        yield show


@contextmanager
def loading() -> Iterator[Callable[[LoadProgress], None]]:
    """Shows the progress of a load."""
    with _progress(BarColumn(), DownloadColumn()) as progress:
        task = progress.add_task("asking the server", total=None)

        def show(event: LoadProgress) -> None:
            description = f"{event.stage.replace('_', ' ')} {event.detail}".strip()
            progress.update(task, description=description, completed=event.done_bytes, total=event.total_bytes or None)

        yield show


@contextmanager
def answering(what: str) -> Iterator[Callable[[TextsProgress], None]]:
    """Shows how many texts are answered."""
    with _progress(*COUNTED) as progress:
        task = progress.add_task(what, total=None)

        def show(event: TextsProgress) -> None:
            progress.update(task, completed=event.done, total=event.total)

        yield show


@contextmanager
def studying() -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows the current stage of a study, and how much of it is done."""
    with _progress(*COUNTED) as progress:
        current: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in current:
                for earlier in current.values():
                    progress.remove_task(earlier)
                current.clear()
                current[stage] = progress.add_task(stage, total=None)
            progress.update(current[stage], completed=done, total=total)

        yield show


@contextmanager
def asking_claims() -> Iterator[Callable[[ClaimsProgress], None]]:
    """Shows how many tests of claims are done, the one that is asked, and an estimate of the time that is left."""
    with _progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task("asking", total=None)

        def show(event: ClaimsProgress) -> None:
            left = ""
            if event.seconds_left is not None:
                left = f", about {datetime.timedelta(seconds=round(event.seconds_left))} left"
            done, total = event.within
            within = f", {done} of {total}" if total else ""
            progress.update(
                task, description=f"{event.model}: {event.claim}{within}{left}", completed=event.done, total=event.total
            )

        yield show


@contextmanager
def training() -> Iterator[Callable[[Any], None]]:
    """Shows the stages of training on the states of texts, and how much of each is done."""
    with studying() as show:
        yield lambda event: show("running the texts" if event.stage == "states" else "training", event.done, event.total)


@contextmanager
def distilling() -> Iterator[Callable[[DistillationProgress], None]]:
    """Shows how many texts a student has seen, its loss, and the lowest one on dev."""
    with _progress(*SHARED) as progress:
        task = progress.add_task("preparing", total=None)

        def show(event: DistillationProgress) -> None:
            words = "going on" if event.resumed else "training"
            losses = f"{words}, loss {event.loss:.3f}, best on dev {event.best_dev_loss:.3f}"
            trains = event.stage == "training"
            progress.update(task, description=losses if trains else event.stage)
            if trains:
                progress.update(task, completed=event.done, total=event.total)

        yield show


@contextmanager
def _progress(*columns: ProgressColumn) -> Iterator[Progress]:
    screen = console(stderr=True)
    first = SpinnerColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*first, *columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        if screen.is_terminal:
            yield progress
        else:
            with _lines(progress, screen):
                yield progress


@contextmanager
def _lines(progress: Progress, screen: Console) -> Iterator[None]:
    """Prints a line every LINE_SECONDS, so that a log shows that long work goes on. Short work prints none."""
    ended = threading.Event()

    def say() -> None:
        while not ended.wait(LINE_SECONDS):
            for task in progress.tasks:
                screen.print(_line(task), soft_wrap=True)

    thread = threading.Thread(target=say, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _line(task: Task) -> Text:
    if not task.total:
        done = f", {task.completed:g} done" if task.completed else ""
    elif task.total == 1:  # A share.
        done = f", {100 * task.completed:.0f} %"
    else:
        done = f", {task.completed:g} of {task.total:g}"
    return printable(f"{task.description}{done}, {datetime.timedelta(seconds=round(task.elapsed or 0))}")
