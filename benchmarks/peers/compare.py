"""Compares servers: equal answers first, then every server in turn, in every round."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.lib.environments import UnavailableError
from benchmarks.lib.sides import Row, take_turns
from benchmarks.peers.cloze import Cell, ClozeCallers
from benchmarks.peers.running import Running, Setting, Side, identity

TRIAL_SECONDS, ROUND_SECONDS = 1.0, 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """A comparison: the servers by their titles, ours first, on some cells.

    searched: the cells on which settings are tried.
    """

    title: str
    sides: Mapping[str, Side]
    cells: Sequence[Cell]
    searched: Sequence[Cell]
    client: ClozeCallers


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
        asks = {title: partial(job.client.read, title, server, cell, ROUND_SECONDS) for title, server in servers.items()}
        yield take_turns(f"{job.title}, {cell}", 1, asks, rounds)


@contextlib.contextmanager
def all_started(job: Job, settings: Mapping[str, Setting], environments: Path) -> Iterator[dict[str, Running]]:
    """Starts all servers with their chosen settings at once; while one is measured the others are idle."""
    with contextlib.ExitStack() as stack:
        running = {}
        for title, setting in settings.items():
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running[title] = stack.enter_context(setting.start(job.sides[title].model, environments, scratch))
        yield running
