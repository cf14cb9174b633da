"""Runs bertscope as its users start it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lib.serving import serving
from benchmarks.peers.models import Written
from benchmarks.peers.sides import MODEL, Running, Setting


@dataclass(frozen=True, slots=True)
class Bertscope:
    """The checkpoint, exported and run by ONNX Runtime; all other settings are defaults."""

    threads: int

    @property
    def title(self) -> str:
        return "--runtime onnx"

    @contextlib.contextmanager
    def start(self, model: Written, environments: Path, scratch: Path) -> Iterator[Running]:
        flags = ("--runtime", "onnx", "--threads", str(self.threads), "--cache-folder", str(scratch))
        with serving(*flags, "--model", f"{MODEL}={model.checkpoint}") as server:
            yield Running(server.target, server.process)


def settings(threads: int) -> list[Setting]:
    """Returns the settings to try."""
    return [Bertscope(threads)]
