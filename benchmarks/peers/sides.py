"""Defines the interface of a compared server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.peers.models import Written

MODEL = "encoder"
"""The name of the model on every server."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running server: its address, or several in gRPC's form, and its processes."""

    target: str
    processes: tuple[psutil.Process, ...]


class Setting(Protocol):
    """One way to run a server; the fastest of several is compared."""

    @property
    def title(self) -> str:
        """The setting in a few words."""

    def start(self, model: Written, environments: Path, scratch: Path) -> AbstractContextManager[Running]:
        """Serves a model as MODEL while this is entered. `environments` is kept from run to run; `scratch` is an empty folder.

        Raises UnavailableError.
        """


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the settings of a server, to choose the fastest from, and the model that it serves."""

    settings: Sequence[Setting]
    model: Written
