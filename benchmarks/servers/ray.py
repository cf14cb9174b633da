"""Compares Ray Serve with our own server, and two replicas with one.

The model of every server computes on one thread. Our server and the replica of "one" are pinned to the first core, the replicas
of "two" to the first and the second; Ray's proxy and ingress and the callers run on any core. All are up at once, and called in
turn.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from bertscope.inference import open_inference_pb2 as oip
from bertscope_service.embedded import EMBEDDED

from benchmarks.lib.background import TEXT
from benchmarks.lib.calls import Answers, Calls, send
from benchmarks.lib.open_inference import METHOD, infer
from benchmarks.lib.options import ROUNDS, option, seconds
from benchmarks.lib.report import Report
from benchmarks.lib.serving import serving
from benchmarks.lib.sides import compared, take_turns
from tools.deploy.ray_cluster import Cluster, read_configuration

OPTIONS = (
    ROUNDS,
    seconds(4.0, "of each side in each round"),
    option("--runtime", "behind every server", "onnx", choices=("torch", "onnx")),
)
ONE, TWO = "one", "two"
"""The same model with one replica and with two."""

CELLS = ((1, 1), (8, 1), (32, 1), (8, 16))
"""Callers and texts of a call: one text is nearly all transport here; 16 are nearly all model."""


@dataclass(frozen=True, slots=True)
class Side:
    """A server to call: its address, and the model."""

    title: str
    target: str
    model: str

    def ask(self, callers: int, texts: int, lasting: float) -> Answers:
        """Runs callers for some seconds."""
        return send(Calls(self.target, METHOD, _request(self.model, texts), callers, lasting))


def report(options: Namespace) -> Report:
    """Measures every cell. Raises ValueError if two sides answer differently."""
    rows = []
    with _sides(options.runtime) as sides:
        for callers, texts in CELLS:
            _check(sides, texts)
            asks = {side.title: partial(side.ask, callers, texts, options.seconds) for side in sides}
            rows.append(take_turns(f"{callers} callers, {texts} texts a call", texts, asks, options.rounds))
    return compared("Ray Serve, bertscope-mini", rows)


@contextlib.contextmanager
def _sides(runtime: str) -> Iterator[list[Side]]:
    flags = ("--model", f"{ONE}={EMBEDDED}", "--threads", "1", "--runtime", runtime)
    with tempfile.TemporaryDirectory() as name, serving(*flags) as server:
        _pin(server.process, 0)
        with Cluster(Path(name), _configuration(runtime)) as cluster:
            cluster.wait_until_serving()
            for model in (ONE, TWO):
                for core, replica in enumerate(cluster.replicas(model)):
                    _pin(replica, core)
            yield [
                Side("bertscope serve", server.target, ONE),
                Side("Ray, 1 replica", cluster.target, ONE),
                Side("Ray, 2 replicas", cluster.target, TWO),
            ]


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


def _check(sides: Sequence[Side], texts: int) -> None:
    """Raises ValueError unless all sides answer the same but for the model's name."""
    found = set()
    for side in sides:
        message = oip.ModelInferResponse.FromString(infer(side.target, _request(side.model, texts)))
        message.ClearField("model_name")
        found.add(message.SerializeToString(deterministic=True))
    if len(found) > 1:
        raise ValueError("the servers answer differently")


def _request(model: str, texts: int) -> bytes:
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[texts])
    tensor.contents.bytes_contents.extend([TEXT.encode()] * texts)
    return oip.ModelInferRequest(model_name=model, inputs=[tensor]).SerializeToString()
