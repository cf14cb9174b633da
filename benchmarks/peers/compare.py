"""Compares servers: equal answers first, then every server in turn, in every round."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.lib.calls import Answers
from benchmarks.lib.environments import UnavailableError
from benchmarks.lib.sides import Row, take_turns
from benchmarks.peers.running import Running, Setting, Side, identity

TRIAL_SECONDS, ROUND_SECONDS = 1.0, 2.0


@dataclass(frozen=True, slots=True)
class Cell:
    """Texts of a number of tokens, so many in each call of so many callers."""

    length: int
    callers: int
    texts: int

    def __str__(self) -> str:
        texts = "1 text" if self.texts == 1 else f"{self.texts} texts"
        callers = "1 caller" if self.callers == 1 else f"{self.callers} callers"
        return f"{self.length} tokens, {callers}, {texts} a call"


class Client(Protocol):
    """The callers of all servers. A server is named by its title in the table."""

    def check(self, title: str, server: Running) -> None:
        """Raises ValueError if a server's answers are wrong."""

    def read(self, title: str, server: Running, cell: Cell, lasting: float) -> Answers:
        """Runs a cell's callers for some seconds."""


@dataclass(frozen=True, slots=True)
class Job:
    """A comparison: the servers by their titles, ours first, on some cells.

    searched: the cells on which settings are tried. bare: runs a cell without a server; None if nothing does.
    """

    title: str
    sides: Mapping[str, Side]
    cells: Sequence[Cell]
    searched: Sequence[Cell]
    client: Client
    bare: Callable[[Cell], Callable[[], Answers]] | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The fastest setting of a server, with the server's version; or why there is none."""

    setting: Setting | None
    remark: str


def choose(job: Job, title: str, environments: Path) -> Chosen:
    """Tries the settings of a server, one after the other; each must answer rightly. The best geometric mean of rates wins."""
    side = job.sides[title]
    tried: list[tuple[float, Chosen]] = []
    for setting in side.settings:
        try:
            with tempfile.TemporaryDirectory() as scratch, setting.start(side.model, environments, Path(scratch)) as server:
                job.client.check(title, server)
                who = identity(server.target)
                rates = [job.client.read(title, server, cell, TRIAL_SECONDS).rate for cell in job.searched]
        except UnavailableError as error:
            if not tried:
                return Chosen(None, str(error))
            print(f"  {setting.title}: left out, {error}", file=sys.stderr)
            continue
        print(f"  {setting.title}: {', '.join(f'{rate:.0f}' for rate in rates)} calls/s", file=sys.stderr)
        tried.append((statistics.geometric_mean(rates), Chosen(setting, f"{who}, {setting.title}")))
    return max(tried, key=lambda entry: entry[0])[1]


def compare(job: Job, servers: Mapping[str, Running], cells: Sequence[Cell], rounds: int) -> Iterator[Row]:
    """Yields the readings of some cells."""
    for cell in cells:
        asks: dict[str, Callable[[], Answers]] = {
            title: partial(job.client.read, title, server, cell, ROUND_SECONDS) for title, server in servers.items()
        }
        if job.bare:
            asks["in-process"] = job.bare(cell)
        yield take_turns(f"{job.title}, {cell}", cell.texts, asks, rounds)


@contextlib.contextmanager
def all_started(job: Job, settings: Mapping[str, Setting], environments: Path) -> Iterator[dict[str, Running]]:
    """Starts all servers with their chosen settings at once; while one is measured the others are idle."""
    with contextlib.ExitStack() as stack:
        running = {}
        for title, setting in settings.items():
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running[title] = stack.enter_context(setting.start(job.sides[title].model, environments, scratch))
        yield running
