"""Puts the server together, runs it, and stops it without losing what runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import bertscope
import grpc
import torch
from bertscope.inference import open_inference_pb2
from bertscope.v1 import (
    ablation_pb2,
    ablation_pb2_grpc,
    attention_pb2,
    attention_pb2_grpc,
    benchmark_pb2,
    benchmark_pb2_grpc,
    classification_pb2,
    classification_pb2_grpc,
    cloze_pb2,
    cloze_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
)
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from prometheus_client import start_http_server

from bertscope_service.connections import server_options
from bertscope_service.door import CallLimits, Door
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.worker import Limits
from bertscope_service.errors import InvalidArgument
from bertscope_service.interceptors import CallInterceptor
from bertscope_service.loaded import LoadedModel, LoadSpec
from bertscope_service.loading import read_model
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.messages.model import load_spec
from bertscope_service.metrics import Metrics
from bertscope_service.reflection import add_reflection
from bertscope_service.registry import Registry
from bertscope_service.reply_room import ReplyRoom
from bertscope_service.runtimes import RuntimeSettings
from bertscope_service.servicers.ablation import AblationServicer
from bertscope_service.servicers.attention import AttentionServicer
from bertscope_service.servicers.base import Backend
from bertscope_service.servicers.benchmark import BenchmarkServicer
from bertscope_service.servicers.classification import ClassificationServicer
from bertscope_service.servicers.cloze import ClozeServicer
from bertscope_service.servicers.inference import InferenceServicer, add_inference_servicer
from bertscope_service.servicers.model import ModelServicer
from bertscope_service.settings import Settings
from bertscope_service.sources import EMBEDDED
from bertscope_service.warm_up import warm_up

logger = logging.getLogger(__name__)

PROTOS: Sequence[FileDescriptor] = (
    model_pb2.DESCRIPTOR,
    attention_pb2.DESCRIPTOR,
    cloze_pb2.DESCRIPTOR,
    classification_pb2.DESCRIPTOR,
    ablation_pb2.DESCRIPTOR,
    benchmark_pb2.DESCRIPTOR,
    open_inference_pb2.DESCRIPTOR,
)
SERVICES = tuple(name for proto in PROTOS for name in (service.full_name for service in proto.services_by_name.values()))
SETTLE_SECONDS = 1.0
"""Time for calls to end before connections are told that we stop. gRPC cancels, unexplained, calls that it has not handed over
when it is stopped, and those that come in before their clients hear of it: so everybody is refused for a while first."""

HOLD_SECONDS = 0.02
"""Who is kept waiting for an answer or a refusal so long before gRPC's stop and after it does not ask again meanwhile."""

FAREWELL_SECONDS = 0.5
"""Time for what was said last to arrive."""

CPU_BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 16_384

Status = health_pb2.HealthCheckResponse


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a running server listens."""

    grpc: int
    metrics: int


class Server:
    """A bertscope server on the running event loop.

    >>> server = Server(Settings(port=0, metrics_port=0))
    >>> ports = await server.start()        # listens; health says NOT_SERVING
    >>> await server.load_models()          # then SERVING
    >>> await server.stop(grace_seconds=5)
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self.metrics.build_info.labels(bertscope.__version__).set(1)
        self.engine = Engine(self._limits, self.metrics, self._device_broke)
        runtimes = RuntimeSettings(settings.cache_folder, settings.threads, settings.onnx_optimisation)
        read = partial(read_model, runtimes=runtimes)
        self.registry = Registry(self.metrics, read, self._warm_up)
        self._serving = False
        limits = CallLimits(settings.max_calls, settings.max_client_calls)
        door = Door(limits, self.metrics, self.engine.crowded)
        self._interceptor = CallInterceptor(self.metrics, door, settings.client_identity)
        self._hurried = asyncio.Event()
        self._health = health.aio.HealthServicer()
        self._broken = False
        self._metrics_server: contextlib.ExitStack = contextlib.ExitStack()
        self._server = grpc.aio.server(
            interceptors=[self._interceptor],
            options=server_options(settings),
        )
        request_limits = RequestLimits(settings.max_texts, settings.max_text_characters)
        backend = Backend(self.engine, self.registry, request_limits)
        model_pb2_grpc.add_ModelServiceServicer_to_server(ModelServicer(backend, settings), self._server)
        attention_pb2_grpc.add_AttentionServiceServicer_to_server(AttentionServicer(backend), self._server)
        cloze_pb2_grpc.add_ClozeServiceServicer_to_server(ClozeServicer(backend), self._server)
        classification_pb2_grpc.add_ClassificationServiceServicer_to_server(ClassificationServicer(backend), self._server)
        ablation = AblationServicer(backend, settings.sweep_memory_bytes)
        ablation_pb2_grpc.add_AblationServiceServicer_to_server(ablation, self._server)
        benchmark = BenchmarkServicer(backend, settings, read)
        benchmark_pb2_grpc.add_BenchmarkServiceServicer_to_server(benchmark, self._server)
        inference = InferenceServicer(backend, ReplyRoom(self.metrics), lambda: self._serving)
        add_inference_servicer(inference, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        add_reflection(self._server, (*SERVICES, health.SERVICE_NAME), PROTOS)

    def _limits(self, device: torch.device) -> Limits:
        default = GPU_BATCH_TOKENS if device.type == "cuda" else CPU_BATCH_TOKENS
        settings = self._settings
        return Limits(
            settings.batch_tokens or default,
            settings.queue_tokens,
            queue_seconds=settings.queue_seconds,
            threads=settings.threads,
        )

    def _device_broke(self, device: torch.device) -> None:
        """From a device's thread: let balancers ask another server, and supervisors start a new one."""
        logger.critical("%s has failed for good; health says NOT_SERVING from now on", device)
        self._broken, self._serving = True, False
        # Kept, for the loop itself holds its tasks weakly.
        self._last_words = asyncio.run_coroutine_threadsafe(self._announce(Status.NOT_SERVING), self._loop)

    async def _warm_up(self, model: LoadedModel) -> LoadedModel:
        return await warm_up(self.engine, model)

    async def start(self) -> Ports:
        """Listen. Raises OSError if a port is taken."""
        self._loop = asyncio.get_running_loop()
        await self._announce(Status.NOT_SERVING)
        host, family = self._settings.host, socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET
        name = f"[{host}]" if family is socket.AF_INET6 else host
        address = f"{name}:{self._settings.port}"
        try:
            # gRPC would log a taken port in its own words, beside ours.
            socket.create_server((host, self._settings.port), family=family).close()
            port = self._server.add_insecure_port(address)
        except (OSError, RuntimeError) as error:
            raise OSError(f"can't listen on {address}; is the port taken? choose another with --port") from error
        try:
            http, thread = start_http_server(self._settings.metrics_port, host, self.metrics.registry)
        except OSError as error:
            address = f"{name}:{self._settings.metrics_port}"
            raise OSError(f"can't serve metrics on {address}; is the port taken? choose another with --metrics-port") from error
        self._metrics_server.callback(thread.join)
        self._metrics_server.callback(http.server_close)
        self._metrics_server.callback(http.shutdown)
        await self._server.start()
        return Ports(port, http.server_port)

    async def load_models(self) -> None:
        """Load the models of the settings, one after the other; then health says SERVING. Raises ServiceError."""
        for entry in self._settings.model or [EMBEDDED]:
            spec = parse_model(entry, self._settings)
            logger.info("loading %s from %s", spec.name, spec.source)
            model = await self.registry.load(spec, lambda _: None)
            encoder = model.encoder
            logger.info("%s is ready on %s in %s, run by %s", model.name, encoder.device, encoder.precision, encoder.runtime)
        if not self._broken:
            await self._announce(Status.SERVING)
            self._serving = True

    async def stop(self, grace_seconds: float, drain_seconds: float = 0.0) -> None:
        """Health says NOT_SERVING, after `drain_seconds` new calls get UNAVAILABLE, those that run after the grace period."""
        was_serving, self._serving = self._serving, False
        await self._health.enter_graceful_shutdown()
        if was_serving:
            await _unless(self._hurried, asyncio.sleep(drain_seconds))
        self._interceptor.draining = True
        running, end = self._interceptor.running, time.monotonic() + grace_seconds
        await _unless(self._hurried, self._interceptor.settle(min(grace_seconds, SETTLE_SECONDS)))
        async with self._interceptor.holding():
            await asyncio.sleep(HOLD_SECONDS)
            # From here on connections take no more calls: their clients turn to another server. Calls that run go on; when they
            # have ended is ours to say, since gRPC would wait for open health watches, which never end. If none runs, it
            # closes the connections at once, and what is on its way gets UNAVAILABLE.
            farewell = asyncio.create_task(self._server.stop(math.inf if running else 0))
            await asyncio.sleep(HOLD_SECONDS)
        await _unless(self._hurried, running.finish(end - time.monotonic()))
        await running.cut_off()
        await self._server.stop(FAREWELL_SECONDS)
        await farewell
        await self.engine.close()
        await asyncio.to_thread(self._metrics_server.close)

    def hurry(self) -> None:
        """Cut short what a stop waits for."""
        self._hurried.set()

    async def _announce(self, status: int) -> None:
        for service in ("", *SERVICES):
            await self._health.set(service, status)


def parse_model(entry: str, settings: Settings) -> LoadSpec:
    """[NAME=]SOURCE; the name defaults to the source's last part. Raises InvalidArgument."""
    name, equals, source = entry.partition("=")
    # A folder may have "=" in its name; then what stands before it is no name.
    if not equals or "/" in name:
        name, source = "", entry
    if not source.strip():
        raise InvalidArgument("model", f"--model {entry!r} names no source; write NAME=SOURCE or SOURCE", "NO_SOURCE")
    return load_spec(name, source, settings.device, settings.precision, settings.runtime)


async def serve(settings: Settings) -> None:
    """Run a server until SIGTERM or SIGINT; a second one ends it at once. Raises OSError and ServiceError if it can't begin."""
    server, stopped = Server(settings), asyncio.Event()

    def signalled() -> None:
        if stopped.is_set():
            server.hurry()
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    ports = await server.start()
    try:
        write_ports(settings.port_file, ports)
        logger.info("listening on %s:%d, metrics on port %d", settings.host, ports.grpc, ports.metrics)
        if await _unless(stopped, server.load_models()):
            logger.info("serving")
            await stopped.wait()
        logger.info("stopping: running calls have %g s to finish", settings.grace_seconds)
    finally:
        await server.stop(settings.grace_seconds, settings.drain_seconds)


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work unless, or until, the server is told to stop, or to hurry; whether it was done."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(stopped.wait())
    await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if doing.done():
        await doing
        return True
    doing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await doing
    return False


def write_ports(path: Path | None, ports: Ports) -> None:
    """Tell whoever started the server where it listens; the file appears whole."""
    if path is None:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"port": ports.grpc, "metrics_port": ports.metrics}))
    draft.replace(path)
