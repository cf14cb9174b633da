"""Shows the progress of long work on stderr: as it goes on a terminal, elsewhere in a line now and then."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

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

Event = TypeVar("Event")
Events = AbstractContextManager[Callable[[Event], None]]
"""Shows the events of work while it runs."""
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
        alone = (sweep.total_pairs, sweep.done_pairs) == (1, 0)
        task = progress.add_task("tracing", total=sweep.start.total if alone else sweep.total_pairs)
        for number, _ in enumerate(sweep, 1):
            progress.update(task, completed=number if alone else sweep.done_pairs)
            came()
        return sweep.table()


def steps(what: str) -> Events[CompressionProgress]:
    """Shows how many steps of a compression are done, and the current one."""
    return _events(
        what,
        (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        lambda event: {"description": event.detail or what, "completed": event.done_steps, "total": event.total_steps},
    )


def benchmarking(what: str) -> Events[BenchmarkProgress]:
    """Shows which share of a benchmark is done, and the current measurement."""
    return _events(what, SHARED, lambda event: {"description": event.stage or what, "completed": event.done}, 1.0)


def loading() -> Events[LoadProgress]:
    """Shows the progress of a load."""

    def shown(event: LoadProgress) -> dict[str, Any]:
        description = f"{event.stage.replace('_', ' ')} {event.detail}".strip()
        return {"description": description, "completed": event.done_bytes, "total": event.total_bytes or None}

    return _events("asking the server", (BarColumn(), DownloadColumn()), shown)


def answering(what: str) -> Events[TextsProgress]:
    """Shows how many texts are answered."""
    return _events(what, COUNTED, lambda event: {"completed": event.done, "total": event.total})


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


def asking_claims() -> Events[ClaimsProgress]:
    """Shows how many tests of claims are done, the one that is asked, and an estimate of the time that is left."""

    def shown(event: ClaimsProgress) -> dict[str, Any]:
        seconds, (done, total) = event.seconds_left, event.within
        left = "" if seconds is None else f", about {datetime.timedelta(seconds=round(seconds))} left"
        within = f", {done} of {total}" if total else ""
        now = f"{event.model}: {event.claim}{within}{left}"
        return {"description": now, "completed": event.done, "total": event.total}

    return _events("asking", (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()), shown)


@contextmanager
def training() -> Iterator[Callable[[Any], None]]:
    """Shows the stages of training on the states of texts, and how much of each is done."""
    with studying() as show:
        yield lambda event: show("running the texts" if event.stage == "states" else "training", event.done, event.total)


def distilling() -> Events[DistillationProgress]:
    """Shows how many texts a student has seen, its loss, and the lowest one on dev."""

    def shown(event: DistillationProgress) -> dict[str, Any]:
        if event.stage != "training":
            return {"description": event.stage}
        words = "going on" if event.resumed else "training"
        losses = f"{words}, loss {event.loss:.3f}, best on dev {event.best_dev_loss:.3f}"
        return {"description": losses, "completed": event.done, "total": event.total}

    return _events("preparing", SHARED, shown)


@contextmanager
def _events(
    what: str, columns: Sequence[ProgressColumn], shown: Callable[[Any], Mapping[str, Any]], total: float | None = None
) -> Iterator[Callable[[Any], None]]:
    """Shows of each event what is `shown` of it: a description, what is completed, the total."""
    with _progress(*columns) as progress:
        task = progress.add_task(what, total=total)
        yield lambda event: progress.update(task, **shown(event))


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
    left = "" if task.time_remaining is None else f", {datetime.timedelta(seconds=round(task.time_remaining))} left"
    return printable(f"{task.description}{done}, {datetime.timedelta(seconds=round(task.elapsed or 0))}{left}")
