"""Compares servers on tensors: token ids in, hidden states out, by the Open Inference Protocol."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from bertscope.inference import open_inference_pb2 as messages
from numpy.typing import NDArray

from benchmarks.lib.measure import seconds
from benchmarks.peers import kserve, ours, triton
from benchmarks.peers.compare import TRIAL_SECONDS, Cell, Client, Job
from benchmarks.peers.graph import OUTPUT, Graph
from benchmarks.peers.load import Load, Reading
from benchmarks.peers.models import SHAPES, feeds, write_model
from benchmarks.peers.processes import LoadProcess, infer
from benchmarks.peers.sides import MODEL, Running, Side

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
    bare = Graph(str(model.graph), threads)
    sides = {"ours": ours.settings(threads, processes), "Triton": triton.settings(threads), "KServe": kserve.settings(threads)}
    return Job(
        title=SHAPES[shape].title,
        sides={title: Side(settings, model) for title, settings in sides.items()},
        cells=[Cell(length, *counts) for length in LENGTHS for counts in COUNTS[shape]],
        searched=[Cell(LENGTHS[0], callers, 1) for callers in (1, 8, 32)],
        client=partial(callers, bare),
        bare=partial(Bare, bare),
    )


def encode(inputs: Mapping[str, NDArray[np.int64]]) -> bytes:
    """Returns a request for the graph's output, its tensors raw."""
    tensors = messages.ModelInferRequest.InferInputTensor
    request = messages.ModelInferRequest(
        model_name=MODEL,
        inputs=[tensors(name=name, datatype="INT64", shape=values.shape) for name, values in inputs.items()],
        outputs=[messages.ModelInferRequest.InferRequestedOutputTensor(name=OUTPUT)],
        raw_input_contents=[values.tobytes() for values in inputs.values()],
    )
    return request.SerializeToString()


@contextlib.contextmanager
def callers(bare: Graph) -> Iterator[Client]:
    """Runs the process of callers."""
    with tempfile.TemporaryDirectory() as folder, LoadProcess() as process:
        yield TensorCallers(bare, process, Path(folder))


@dataclass(frozen=True, slots=True)
class TensorCallers:
    """The process of callers for all servers; requests lie in a folder."""

    bare: Graph
    process: LoadProcess
    folder: Path
    reply_bytes: dict[tuple[str, Cell], int] = field(default_factory=dict)

    def check(self, title: str, server: Running) -> None:
        """Raises ValueError if a server's answers differ from the graph's, at any token but padding."""
        for length in LENGTHS:
            inputs = feeds([length, length - 5, 3])
            mask = inputs["attention_mask"] == 1
            found = _decode(infer(server.target, encode(inputs)))
            worst = float(np.abs(found[mask] - self.bare.run(inputs)[mask]).max())
            if not worst < TOLERANCE:
                raise ValueError(f"the answers of {title} are off by {worst}")

    def read(self, title: str, server: Running, cell: Cell, calls: int) -> Reading:
        path = self.folder / f"{cell.length}-{cell.texts}"
        if not path.exists():
            path.write_bytes(encode(feeds([cell.length] * cell.texts)))
        expected = self.reply_bytes.get((server.target, cell))
        if expected is None:
            expected = self.reply_bytes[server.target, cell] = len(infer(server.target, path.read_bytes()))
        return self.process.run(Load(server.target, str(path), expected, cell.callers, calls, cell.texts))


def _decode(reply: bytes) -> NDArray[np.float32]:
    message = messages.ModelInferResponse.FromString(reply)
    return np.frombuffer(message.raw_output_contents[0], np.float32).reshape(tuple(message.outputs[0].shape))


class Bare:
    """The graph alone, in this process, on the texts of a cell; see Compared."""

    def __init__(self, graph: Graph, cell: Cell) -> None:
        self._graph, self._texts = graph, cell.texts
        batches = {size: feeds([cell.length] * size) for size in BARE_BATCHES if size <= cell.texts}
        for batch in batches.values():
            graph.run(batch)
        self._size = min(batches, key=lambda size: min(seconds(lambda: graph.run(batches[size])) for _ in range(3)) / size)
        self._batch = batches[self._size]

    def __call__(self) -> float:
        times = [seconds(lambda: self._graph.run(self._batch))]
        while sum(times) < TRIAL_SECONDS:
            times.append(seconds(lambda: self._graph.run(self._batch)))
        middle = statistics.median(times)
        return 1000 * middle if self._texts == 1 else self._size / middle
