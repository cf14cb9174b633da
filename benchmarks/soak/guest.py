"""Loads, replaces and unloads a model all the time, and tracks which answers are right at any moment."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bertscope
import numpy as np

from benchmarks.soak.tally import OK, Tally, counted

ABSENT = frozenset({"NOT_FOUND", "FAILED_PRECONDITION"})
"""The codes with which a call may end if the model was not there all along, or not ready."""

LOAD_SECONDS = 120.0
NAME = "guest"
FAILING_SHARE = 0.2
"""The share of replacements that are preceded by a failing one."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder, and the digest that a server gives for its weights."""

    folder: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of the model when a call began."""

    there: bool
    changes: int
    first: int


@dataclass(slots=True)
class Guest:
    """The weights that may answer. A call that begins after a replacement has ended is never answered by the old ones.

    `history` are digests in the order they may have begun to answer; from the one numbered `settled` on, any may.
    """

    history: list[str] = field(default_factory=list)
    settled: int = 0
    there: bool = False
    changes: int = 0
    """The number of loads and unloads."""

    def now(self) -> Moment:
        return Moment(self.there, self.changes, self.settled)

    def since(self, moment: Moment) -> frozenset[str]:
        """Returns the digests that may have answered a call that began then and has ended now."""
        return frozenset(self.history[moment.first :])

    def stayed(self, moment: Moment) -> bool:
        """Returns true if the model was there from then until now: then a call must succeed."""
        return moment.there and self.there and moment.changes == self.changes

    def begin(self, digest: str) -> None:
        """Notes that these weights may answer from now on."""
        self.history.append(digest)

    def settle(self) -> None:
        """Notes that only the last weights answer from now on."""
        self.settled = len(self.history) - 1
        if not self.there:
            self.there, self.changes = True, self.changes + 1

    def leave(self) -> None:
        """Notes that nothing may answer from now on."""
        self.there, self.changes = False, self.changes + 1


async def keep_changing(
    guest: Guest,
    client: bertscope.AsyncClient,
    checkpoints: Sequence[Checkpoint],
    tally: Tally,
    draw: np.random.Generator,
    *,
    end: float,
    pause: float,
) -> None:
    """Loads the model, replaces it some times, unloads it; repeats until `end`, a loop time, with `pause` seconds between on
    average."""
    loop, checkpoint = asyncio.get_running_loop(), itertools.cycle(checkpoints)
    missing = checkpoints[0].folder / "missing"
    while loop.time() < end:
        await _load(guest, client, next(checkpoint), tally, replace=False)
        for _ in range(int(draw.integers(2, 6))):
            await asyncio.sleep(draw.exponential(pause))
            if draw.random() < FAILING_SHARE:
                # The old model continues to answer.
                failing = client.load_model(NAME, source=str(missing), replace=True, timeout=LOAD_SECONDS)
                await counted(tally, "LoadModel, replace by nothing", failing, ABSENT)
            await _load(guest, client, next(checkpoint), tally, replace=True)
        await asyncio.sleep(draw.exponential(pause))
        guest.leave()
        await counted(tally, "UnloadModel", client.unload_model(f"models/{NAME}", timeout=LOAD_SECONDS), {OK})
        await asyncio.sleep(draw.exponential(pause))


async def _load(guest: Guest, client: bertscope.AsyncClient, checkpoint: Checkpoint, tally: Tally, *, replace: bool) -> None:
    guest.begin(checkpoint.digest)
    kind = "LoadModel, replace" if replace else "LoadModel"
    loading = client.load_model(NAME, source=str(checkpoint.folder), replace=replace, timeout=LOAD_SECONDS)
    model = await counted(tally, kind, loading, {OK})
    if model is not None:
        guest.settle()
        if model.weights_digest != checkpoint.digest:
            tally.was_wrong(kind, f"digest {model.weights_digest}")
