"""Runs bertscope as its users start it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lib.serving import serving
from benchmarks.peers.running import MODEL, Running, Setting, Written

QUEUE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Bertscope:
    """The checkpoint, exported and run by ONNX Runtime. All other settings are defaults but the queue's, which has no limit in
    effect, as the other servers' have none: 32 callers with 32 texts of a bert-base wait for longer than ours lets calls wait.

    Several processes listen on addresses of their own, between which each caller's connection alternates.
    """

    processes: int
    threads: int

    @property
    def title(self) -> str:
        return f"{self.processes} x {self.threads} threads"

    @contextlib.contextmanager
    def start(self, model: Written, environments: Path, scratch: Path) -> Iterator[Running]:
        flags = ["--runtime", "onnx", "--threads", str(self.threads), "--cache-folder", str(scratch)]
        flags += ["--queue-seconds", str(QUEUE_SECONDS)]
        with contextlib.ExitStack() as stack:
            # One after the other: the first one exports the checkpoint for all.
            servers = [
                stack.enter_context(serving(*flags, "--model", f"{MODEL}={model.checkpoint}")) for _ in range(self.processes)
            ]
            addresses = ",".join(server.target for server in servers)
            yield Running(f"ipv4:{addresses}", tuple(server.process for server in servers))


def settings(threads: int, processes: Sequence[int] = (1, 2)) -> list[Setting]:
    """Returns the settings to try: numbers of processes that share the threads."""
    return [Bertscope(count, max(1, threads // count)) for count in processes]
