"""Runs processes during a measurement, and ends them afterwards, whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import grpc
import psutil
from bertscope.inference import open_inference_pb2, open_inference_pb2_grpc

from benchmarks.lib.own_process import ROOT
from benchmarks.peers.cloze_load import ClozeLoad
from benchmarks.peers.environments import UnavailableError
from benchmarks.peers.load import METHOD, OPTIONS, Load, Reading

START_SECONDS = 120.0
STOP_SECONDS = 20.0
IDLE_SECONDS = 2.0


@contextlib.contextmanager
def process(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[psutil.Process]:
    """Runs a command, its output in a file. It and its children are gone when this leaves."""
    with log.open("w") as output:
        started = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        try:
            yield started
        finally:
            family = [started, *_children(started)]
            with contextlib.suppress(psutil.NoSuchProcess):
                started.terminate()
            _, alive = psutil.wait_procs(family, STOP_SECONDS)
            for one in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(alive, STOP_SECONDS)


def wait_until_ready(started: psutil.Process, target: str, model: str, log: Path) -> None:
    """Waits until a server says that it has a model. Raises UnavailableError with the end of its log."""
    ends = time.monotonic() + START_SECONDS
    with grpc.insecure_channel(target) as channel:
        stub = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        while time.monotonic() < ends and started.is_running() and started.status() != psutil.STATUS_ZOMBIE:
            with contextlib.suppress(grpc.RpcError):
                if stub.ModelReady(open_inference_pb2.ModelReadyRequest(name=model), timeout=1.0, wait_for_ready=True).ready:
                    return
    raise UnavailableError(f"{model} was not ready at {target}: {log.read_text(errors='replace')[-2000:]}")


def identity(target: str) -> str:
    """Returns a server's name and version, as it reports them."""
    with grpc.insecure_channel(target) as channel:
        stub = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        found = stub.ServerMetadata(open_inference_pb2.ServerMetadataRequest(), timeout=START_SECONDS, wait_for_ready=True)
    return f"{found.name} {found.version}"


def infer(target: str, request: bytes) -> bytes:
    """Makes one call, outside of any measurement."""
    with grpc.insecure_channel(target, OPTIONS) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        return call(request, timeout=START_SECONDS, wait_for_ready=True)


def idle_cores(started: Sequence[psutil.Process]) -> float:
    """Returns the cores that the processes of an idle server use."""
    before = _cpu_seconds(started)
    time.sleep(IDLE_SECONDS)
    return (_cpu_seconds(started) - before) / IDLE_SECONDS


def _cpu_seconds(started: Sequence[psutil.Process]) -> float:
    every = [one for parent in started for one in [parent, *_children(parent)]]
    return sum(one.cpu_times().user + one.cpu_times().system for one in every)


def _children(started: psutil.Process) -> list[psutil.Process]:
    try:
        return started.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


class LoadProcess:
    """Callers in a process: a module that reads jobs from stdin and answers each with a Reading, see load.py."""

    def __init__(self, module: str = "benchmarks.peers.load") -> None:
        self._module = module

    def __enter__(self) -> LoadProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def run(self, load: Load | ClozeLoad) -> Reading:
        """Runs a load. Raises RuntimeError if the callers failed; the reason is on stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asdict(load)), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the callers of {load.target} gave up")
        return Reading(**json.loads(answer))
