"""Compares servers on tensors: token ids in, hidden states out, by the Open Inference Protocol."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from bertscope.inference import open_inference_pb2 as messages
from numpy.typing import NDArray

from benchmarks.lib.calls import Answers, Calls, send
from benchmarks.lib.measure import fastest, seconds
from benchmarks.lib.open_inference import METHOD, infer, request
from benchmarks.peers import kserve, ours, triton
from benchmarks.peers.compare import TRIAL_SECONDS, Cell, Job
from benchmarks.peers.graph import OUTPUT, Graph
from benchmarks.peers.models import SHAPES, feeds, write_model
from benchmarks.peers.running import MODEL, Running, Side

LENGTHS = (32, 128)
TOLERANCE = 1e-4
BARE_BATCHES = (1, 4, 8, 16, 32)
COUNTS = {
    "tiny": ((1, 1), (8, 1), (32, 1), (1, 32), (8, 32), (32, 32)),
    "base": ((1, 1), (8, 1), (32, 1), (1, 32), (8, 32)),
}
"""Callers, and texts in a call."""


def job(shape: str, threads: int, processes: Sequence[int], folder: Path) -> Job:
    """Returns the comparison on an encoder of a shape in SHAPES, written to the folder."""
    model = write_model(SHAPES[shape], folder)
    graph = Graph(str(model.graph), threads)
    sides = {"ours": ours.settings(threads, processes), "Triton": triton.settings(threads), "KServe": kserve.settings(threads)}
    return Job(
        title=SHAPES[shape].title,
        sides={title: Side(settings, model) for title, settings in sides.items()},
        cells=[Cell(length, *counts) for length in LENGTHS for counts in COUNTS[shape]],
        searched=[Cell(LENGTHS[0], callers, 1) for callers in (1, 8, 32)],
        client=TensorCallers(graph),
        bare=partial(_alone, graph),
    )


@dataclass(frozen=True, slots=True)
class TensorCallers:
    """The callers of all servers: bytes out, bytes in, nothing parsed. `graph` tells the right answers."""

    graph: Graph

    def check(self, title: str, server: Running) -> None:
        """Raises ValueError if a server's answers differ from the graph's, at any token but padding."""
        for length in LENGTHS:
            inputs = feeds([length, length - 5, 3])
            mask = inputs["attention_mask"] == 1
            found = _decode(infer(server.target, request(MODEL, inputs, [OUTPUT]).SerializeToString()))
            worst = float(np.abs(found[mask] - self.graph.run(inputs)[mask]).max())
            if not worst < TOLERANCE:
                raise ValueError(f"the answers of {title} are off by {worst}")

    def read(self, title: str, server: Running, cell: Cell, lasting: float) -> Answers:
        """Runs a cell's callers for some seconds."""
        data = request(MODEL, feeds([cell.length] * cell.texts), [OUTPUT]).SerializeToString()
        processes = tuple(process.pid for process in server.processes)
        return send(Calls(server.target, METHOD, data, cell.callers, lasting, processes))


def _decode(reply: bytes) -> NDArray[np.float32]:
    message = messages.ModelInferResponse.FromString(reply)
    return np.frombuffer(message.raw_output_contents[0], np.float32).reshape(tuple(message.outputs[0].shape))


def _alone(graph: Graph, cell: Cell) -> partial[Answers]:
    """Returns what runs the graph in this process on the texts of a cell, in batches of the best size."""
    batches = {size: feeds([cell.length] * size) for size in BARE_BATCHES if size <= cell.texts}
    best = fastest(list(batches), lambda size: [graph.run(batches[size]) for _ in range(BARE_BATCHES[-1] // size)])

    def run() -> Answers:
        times = [seconds(lambda: graph.run(batches[best]))]
        while sum(times) < TRIAL_SECONDS:
            times.append(seconds(lambda: graph.run(batches[best])))
        # As many calls of the cell as would have the texts of these runs.
        latencies = [taken * cell.texts / best for taken in times]
        return Answers(latencies, statistics.median(latencies) * len(latencies))

    return partial(run)
