"""What every server that is compared looks like to the comparison."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.peers.models import Written

MODEL = "encoder"
"""What the model is called on every server."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is up: where it listens, and its process."""

    target: str
    process: psutil.Process


class Setting(Protocol):
    """One way to run a server; of several, the fastest is compared."""

    @property
    def title(self) -> str:
        """In a few words."""

    def start(self, model: Written, environments: Path, scratch: Path) -> AbstractContextManager[Running]:
        """Serve a model as MODEL while this is entered. `environments` is kept from run to run; `scratch` is an empty folder.

        Raises UnavailableError.
        """
