"""Compares servers: equal answers first, then every server in turn, in every round."""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bertscope.inference import open_inference_pb2 as messages
from numpy.typing import NDArray

from benchmarks.lib.measure import seconds
from benchmarks.peers.environments import UnavailableError
from benchmarks.peers.graph import OUTPUT, Graph
from benchmarks.peers.load import Load, Reading
from benchmarks.peers.models import Written, feeds
from benchmarks.peers.processes import LoadProcess, identity, infer
from benchmarks.peers.sides import MODEL, Running, Setting

LENGTHS = (32, 128)
TOLERANCE = 1e-4
TRIAL_SECONDS, ROUND_SECONDS = 1.0, 2.0
SEARCHED = (1, 8, 32)
"""The numbers of callers with which settings are tried, on texts of the first of LENGTHS."""
BARE_BATCHES = (1, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table."""

    length: int
    callers: int
    texts: int


CELLS = tuple(
    Cell(length, callers, texts) for length in LENGTHS for callers, texts in ((1, 1), (8, 1), (32, 1), (1, 32), (8, 32))
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


class Client:
    """One process of callers for all servers; requests lie in a folder."""

    def __init__(self, process: LoadProcess, folder: Path) -> None:
        self._process, self._folder = process, folder
        self._reply_bytes: dict[tuple[str, Cell], int] = {}

    def check(self, server: Running, title: str, bare: Graph) -> None:
        """Raises ValueError if a server's answers differ from the graph's, at any token but padding."""
        for length in LENGTHS:
            inputs = feeds([length, length - 5, 3])
            mask = inputs["attention_mask"] == 1
            found = _decode(infer(server.target, encode(inputs)))
            worst = float(np.abs(found[mask] - bare.run(inputs)[mask]).max())
            if not worst < TOLERANCE:
                raise ValueError(f"the answers of {title} are off by {worst}")

    def calls(self, server: Running, cell: Cell, lasting: float) -> int:
        """Returns how many calls take about `lasting` seconds; at least one for each caller."""
        count = cell.callers
        while True:
            per_second = self.read(server, cell, count).rate / cell.texts
            if 4 * count > per_second * lasting:
                return cell.callers * math.ceil(per_second * lasting / cell.callers)
            count *= 4

    def read(self, server: Running, cell: Cell, calls: int) -> Reading:
        """Returns the measurements of a cell's callers."""
        path = self._folder / f"{cell.length}-{cell.texts}"
        if not path.exists():
            path.write_bytes(encode(feeds([cell.length] * cell.texts)))
        expected = self._reply_bytes.get((server.target, cell))
        if expected is None:
            expected = self._reply_bytes[server.target, cell] = len(infer(server.target, path.read_bytes()))
        return self._process.run(Load(server.target, str(path), expected, cell.callers, calls, cell.texts))


def _decode(reply: bytes) -> NDArray[np.float32]:
    message = messages.ModelInferResponse.FromString(reply)
    return np.frombuffer(message.raw_output_contents[0], np.float32).reshape(tuple(message.outputs[0].shape))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The fastest setting of a server, with the server's version; or why there is none."""

    setting: Setting | None
    remark: str


def choose(settings: Sequence[Setting], model: Written, environments: Path, bare: Graph) -> Chosen:
    """Tries the settings, one after the other; each must answer as the graph does. The best geometric mean of rates wins."""
    tried: list[tuple[float, Chosen]] = []
    cells = [Cell(LENGTHS[0], callers, 1) for callers in SEARCHED]
    for setting in settings:
        try:
            with tempfile.TemporaryDirectory() as name, LoadProcess() as process:
                (scratch := Path(name) / "server").mkdir()
                with setting.start(model, environments, scratch) as server:
                    client = Client(process, Path(name))
                    client.check(server, setting.title, bare)
                    who = identity(server.target)
                    rates = [client.read(server, cell, client.calls(server, cell, TRIAL_SECONDS)).rate for cell in cells]
        except UnavailableError as error:
            if not tried:
                return Chosen(None, str(error))
            print(f"  {setting.title}: left out, {error}", file=sys.stderr)
            continue
        print(f"  {setting.title}: {', '.join(f'{rate:.0f}' for rate in rates)} texts/s", file=sys.stderr)
        tried.append((statistics.geometric_mean(rates), Chosen(setting, f"{who}, {setting.title}")))
    return max(tried, key=lambda entry: entry[0])[1]


@dataclass(frozen=True, slots=True)
class Compared:
    """A cell, round by round: the measurements of each server's callers, and the bare graph.

    bare: one text, milliseconds at the median, for a cell with one of them; else texts per second at the best batch.
    """

    cell: Cell
    readings: dict[str, list[Reading]]
    bare: list[float]


def compare(servers: Mapping[str, Running], cells: Sequence[Cell], bare: Graph, rounds: int) -> Iterator[Compared]:
    """Yields every cell; the first server decides how many calls a round has."""
    with tempfile.TemporaryDirectory() as name, LoadProcess() as process:
        client = Client(process, Path(name))
        for cell in cells:
            calls = client.calls(next(iter(servers.values())), cell, ROUND_SECONDS)
            alone = Bare(bare, cell)
            compared = Compared(cell, {title: [] for title in servers}, [])
            for _ in range(rounds):
                for title, server in servers.items():
                    compared.readings[title].append(client.read(server, cell, calls))
                compared.bare.append(alone())
            yield compared


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


@contextlib.contextmanager
def all_started(settings: Mapping[str, Setting], model: Written, environments: Path) -> Iterator[dict[str, Running]]:
    """Starts all servers at once; while one is measured the others are idle."""
    with contextlib.ExitStack() as stack:
        running = {}
        for title, setting in settings.items():
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running[title] = stack.enter_context(setting.start(model, environments, scratch))
        yield running
