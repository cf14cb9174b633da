"""Compares Ray Serve with our own server, and two replicas with one: `python -m benchmarks ray`.

The model of every server computes on one thread. Our server and the replica of "one" are pinned to the first core, the replicas
of "two" to the first and the second; Ray's proxy and ingress and the callers run on any core. All are up at once, and called in
turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from bertscope.inference import open_inference_pb2 as oip
from bertscope_service.embedded import EMBEDDED
from rich.console import Console
from rich.table import Table

from benchmarks.lib.measure import machine
from benchmarks.lib.serving import serving
from benchmarks.peers.load import Load, Reading
from benchmarks.peers.processes import LoadProcess, infer
from tools.deploy.ray_cluster import Cluster, read_configuration

FIRST_CALLS = 10
"""The first calls of each caller, to learn how many a round needs."""

TEXT = "Paris is the capital of [MASK]."
ONE, TWO = "one", "two"
"""The same model with one replica and with two; the names have equal lengths, and so have the answers."""


@dataclass(frozen=True, slots=True)
class Side:
    """A server to call: its address, and the model."""

    title: str
    target: str
    model: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Callers, each with one call after the other, and the texts of a call."""

    callers: int
    texts: int


CELLS = (Cell(1, 1), Cell(8, 1), Cell(32, 1), Cell(8, 16))
"""One text is nearly all transport here; 16 are nearly all model."""


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements of a cell's callers on each side, round by round."""

    cell: Cell
    readings: dict[str, list[Reading]]

    def middle(self, title: str, of: Callable[[Reading], float]) -> float:
        return statistics.median(map(of, self.readings[title]))

    def ratio(self, title: str, base: str) -> tuple[float, float, float]:
        """Returns the rate over that of `base`: the median, lowest and highest of the rounds."""
        pairs = zip(self.readings[title], self.readings[base], strict=True)
        ratios = [one.rate / other.rate for one, other in pairs]
        return statistics.median(ratios), min(ratios), max(ratios)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ray", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison, at least 5 for a figure to quote")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round, about")
    parser.add_argument("--runtime", choices=["torch", "onnx"], default="onnx", help="behind every server")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    rows = []
    for row in compare(options.rounds, options.seconds, options.runtime):
        rows.append(row)
        print(f"{row.cell.callers} callers, {row.cell.texts} texts a call: done", file=sys.stderr)
    if options.json:
        print(json.dumps({"machine": machine(), "readings": [asdict(row) for row in rows]}, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(rows, options.rounds))
        console.print(machine(), highlight=False)
    return 0


def compare(rounds: int, seconds: float, runtime: str) -> Iterator[Row]:
    """Yields every cell. Raises ValueError if two sides answer differently."""
    flags = ("--model", f"{ONE}={EMBEDDED}", "--threads", "1", "--runtime", runtime)
    with tempfile.TemporaryDirectory() as name, serving(*flags) as server, LoadProcess() as callers:
        _pin(server.process, 0)
        with Cluster(Path(name), _configuration(runtime)) as cluster:
            cluster.wait_until_serving()
            for model in (ONE, TWO):
                for core, replica in enumerate(cluster.replicas(model)):
                    _pin(replica, core)
            sides = [
                Side("bertscope serve", server.target, ONE),
                Side("Ray, 1 replica", cluster.target, ONE),
                Side("Ray, 2 replicas", cluster.target, TWO),
            ]
            asked = StoredCalls(callers, Path(name), sides)
            for cell in CELLS:
                calls = {side.title: asked.calls(side, cell, seconds) for side in sides}
                readings: dict[str, list[Reading]] = {side.title: [] for side in sides}
                for _ in range(rounds):
                    for side in sides:
                        readings[side.title].append(asked.read(side, cell, calls[side.title]))
                yield Row(cell, readings)


def _pin(process: psutil.Process, core: int) -> None:
    """Pins a process to one core. Each of its threads has its own affinity, and the computing threads exist already."""
    for thread in process.threads():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread.id, {core})


def _configuration(runtime: str) -> dict[str, Any]:
    """Returns the configuration that we ship, with one model under two names."""
    configuration = read_configuration()
    (application,) = configuration["applications"]
    application["args"] = {
        "models": [{"name": name, "source": EMBEDDED} for name in (ONE, TWO)],
        "settings": {"runtime": runtime, "threads": 1, "log_level": "warning"},
    }
    application["deployments"] = [
        {"name": "ingress", "num_replicas": 1},
        {"name": ONE, "num_replicas": 1},
        {"name": TWO, "num_replicas": 2},
    ]
    return configuration


class StoredCalls:
    """A cloze call of every size, as bytes, to every side."""

    def __init__(self, callers: LoadProcess, folder: Path, sides: Sequence[Side]) -> None:
        """Raises ValueError if two sides answer differently."""
        self._callers = callers
        self._folder = folder
        self._reply_bytes: dict[int, int] = {}
        for texts in {cell.texts for cell in CELLS}:
            for model in (ONE, TWO):
                self._path(model, texts).write_bytes(_request(model, texts))
            replies = [infer(side.target, self._path(side.model, texts).read_bytes()) for side in sides]
            if len({_outputs(reply) for reply in replies}) > 1:
                raise ValueError("the servers answer differently")
            (self._reply_bytes[texts],) = {len(reply) for reply in replies}

    def calls(self, side: Side, cell: Cell, seconds: float) -> int:
        """Returns how many calls take about `seconds` seconds."""
        first = self.read(side, cell, FIRST_CALLS * cell.callers)
        return max(cell.callers, round(first.rate / cell.texts * seconds))

    def read(self, side: Side, cell: Cell, calls: int) -> Reading:
        path = self._path(side.model, cell.texts)
        return self._callers.run(Load(side.target, str(path), self._reply_bytes[cell.texts], cell.callers, calls, cell.texts))

    def _path(self, model: str, texts: int) -> Path:
        return self._folder / f"{model}-{texts}"


def _request(model: str, texts: int) -> bytes:
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[texts])
    tensor.contents.bytes_contents.extend([TEXT.encode()] * texts)
    return oip.ModelInferRequest(model_name=model, inputs=[tensor]).SerializeToString()


def _outputs(reply: bytes) -> bytes:
    """Returns an answer without its provenance."""
    message = oip.ModelInferResponse.FromString(reply)
    message.ClearField("model_name")
    return message.SerializeToString(deterministic=True)


def table(rows: Sequence[Row], rounds: int) -> Table:
    found = Table(title=f"Medians of {rounds} rounds, in turn in one run; callers share the machine")
    figures = ("texts/s", "median ms", "p95 ms", "rate / bertscope serve", "rate / 1 replica")
    for heading in ("callers", "texts a call", "side", *figures):
        found.add_column(heading, justify="left" if heading == "side" else "right")
    for row in rows:
        ours, one, _ = row.readings
        for title in row.readings:
            numbers = [f"{row.middle(title, of):.{digits}f}" for of, digits in FIGURES]
            what = (str(row.cell.callers), str(row.cell.texts), title)
            found.add_row(*what, *numbers, _spread(row.ratio(title, ours)), _spread(row.ratio(title, one)))
    return found


FIGURES: Sequence[tuple[Callable[[Reading], float], int]] = (
    (lambda reading: reading.rate, 1),
    (lambda reading: reading.p50, 1),
    (lambda reading: reading.p95, 1),
)
"""Figures of a reading, and the number of their digits."""


def _spread(ratio: tuple[float, float, float]) -> str:
    middle, low, high = ratio
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"
