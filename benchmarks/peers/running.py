"""Defines the interface of a compared server, and what is asked of one that runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
import psutil
from bertscope.inference import open_inference_pb2 as messages

from benchmarks.lib.environments import UnavailableError
from benchmarks.lib.open_inference import PATIENCE_SECONDS, stub
from benchmarks.lib.processes import children, cpu_seconds, wait_until

MODEL = "encoder"
"""The name of the model on every server."""

IDLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Written:
    """A model on disk: transformers' folder, and the ONNX file with a config and a tokenizer beside it."""

    checkpoint: Path
    graph: Path


@dataclass(frozen=True, slots=True)
class Running:
    """A running server: its address, or several in gRPC's form, and its processes."""

    target: str
    processes: tuple[psutil.Process, ...]

    def idle_cores(self) -> float:
        """Returns the cores that its processes use while it is idle."""
        every = [one for parent in self.processes for one in [parent, *children(parent)]]
        before = sum(map(cpu_seconds, every))
        time.sleep(IDLE_SECONDS)
        return (sum(map(cpu_seconds, every)) - before) / IDLE_SECONDS


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


def wait_until_ready(started: psutil.Process, target: str, log: Path) -> None:
    """Waits until a server says that it has the model. Raises UnavailableError with the end of its log."""
    with grpc.insecure_channel(target) as channel:
        asked, ask = messages.ModelReadyRequest(name=MODEL), stub(channel).ModelReady

        def ready() -> bool:
            with contextlib.suppress(grpc.RpcError):
                return bool(ask(asked, timeout=1.0, wait_for_ready=True).ready)
            return False

        try:
            wait_until(ready, PATIENCE_SECONDS, started, log)
        except RuntimeError as error:
            raise UnavailableError(str(error)) from error


def identity(target: str) -> str:
    """Returns a server's name and version, as it reports them."""
    with grpc.insecure_channel(target) as channel:
        found = stub(channel).ServerMetadata(messages.ServerMetadataRequest(), timeout=PATIENCE_SECONDS, wait_for_ready=True)
    return f"{found.name} {found.version}"
