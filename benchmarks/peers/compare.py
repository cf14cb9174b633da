"""Compares servers: equal answers first, then every server in turn, in every round."""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.peers.environments import UnavailableError
from benchmarks.peers.load import Reading
from benchmarks.peers.processes import identity
from benchmarks.peers.sides import Running, Setting, Side

TRIAL_SECONDS, ROUND_SECONDS = 1.0, 2.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table. `length` is the number of tokens of a text."""

    length: int
    callers: int
    texts: int


class Client(Protocol):
    """The callers of all servers, in one process of their own. A server is named by its title in the table."""

    def check(self, title: str, server: Running) -> None:
        """Raises ValueError if a server's answers are wrong."""

    def read(self, title: str, server: Running, cell: Cell, calls: int) -> Reading:
        """Returns the measurements of a cell's callers."""


@dataclass(frozen=True, slots=True)
class Job:
    """A comparison: the servers by their titles, ours first, on some cells.

    searched: the cells on which settings are tried. bare: returns a function that runs a cell without a server, see Compared;
    None if there is none.
    """

    title: str
    sides: Mapping[str, Side]
    cells: Sequence[Cell]
    searched: Sequence[Cell]
    client: Callable[[], AbstractContextManager[Client]]
    bare: Callable[[Cell], Callable[[], float]] | None = None


def count_calls(client: Client, title: str, server: Running, cell: Cell, lasting: float) -> int:
    """Returns how many calls take about `lasting` seconds; at least one for each caller."""
    count = cell.callers
    while True:
        per_second = client.read(title, server, cell, count).rate / cell.texts
        if 4 * count > per_second * lasting:
            return cell.callers * math.ceil(per_second * lasting / cell.callers)
        count *= 4


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
            with (
                tempfile.TemporaryDirectory() as scratch,
                setting.start(side.model, environments, Path(scratch)) as server,
                job.client() as client,
            ):
                client.check(title, server)
                who = identity(server.target)
                rates = [_trial(client, title, server, cell) for cell in job.searched]
        except UnavailableError as error:
            if not tried:
                return Chosen(None, str(error))
            print(f"  {setting.title}: left out, {error}", file=sys.stderr)
            continue
        print(f"  {setting.title}: {', '.join(f'{rate:.0f}' for rate in rates)} texts/s", file=sys.stderr)
        tried.append((statistics.geometric_mean(rates), Chosen(setting, f"{who}, {setting.title}")))
    return max(tried, key=lambda entry: entry[0])[1]


def _trial(client: Client, title: str, server: Running, cell: Cell) -> float:
    return client.read(title, server, cell, count_calls(client, title, server, cell, TRIAL_SECONDS)).rate


@dataclass(frozen=True, slots=True)
class Compared:
    """A cell, round by round: the measurements of each server's callers, and of the bare graph if there is one.

    bare: one text, milliseconds at the median, for a cell with one of them; else texts per second at the best batch.
    """

    cell: Cell
    readings: dict[str, list[Reading]]
    bare: list[float]


def compare(job: Job, servers: Mapping[str, Running], rounds: int) -> Iterator[Compared]:
    """Yields every cell; the first server decides how many calls a round has."""
    with job.client() as client:
        for cell in job.cells:
            title, server = next(iter(servers.items()))
            calls = count_calls(client, title, server, cell, ROUND_SECONDS)
            alone = job.bare(cell) if job.bare else None
            compared = Compared(cell, {title: [] for title in servers}, [])
            for _ in range(rounds):
                for title, server in servers.items():
                    compared.readings[title].append(client.read(title, server, cell, calls))
                if alone is not None:
                    compared.bare.append(alone())
            yield compared


@contextlib.contextmanager
def all_started(job: Job, settings: Mapping[str, Setting], environments: Path) -> Iterator[dict[str, Running]]:
    """Starts all servers with their chosen settings at once; while one is measured the others are idle."""
    with contextlib.ExitStack() as stack:
        running = {}
        for title, setting in settings.items():
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running[title] = stack.enter_context(setting.start(job.sides[title].model, environments, scratch))
        yield running
