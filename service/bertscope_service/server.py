"""Puts the server together, runs it, and stops it without losing what runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import time
from collections.abc import Coroutine
from typing import Any

import bertscope
import grpc
import torch
from grpc_health.v1 import health

from bertscope_service import channelz
from bertscope_service.connections import server_options
from bertscope_service.door import CallLimits, Door
from bertscope_service.errors import Unavailable
from bertscope_service.health import Health
from bertscope_service.hosting import Hosting
from bertscope_service.interceptors import CallInterceptor
from bertscope_service.listening import Ports, listen, serve_metrics, write_ports
from bertscope_service.reflection import add_reflection
from bertscope_service.security.exposure import exposure
from bertscope_service.security.guard import Guard
from bertscope_service.services import PROTOS, SERVICES, add_services
from bertscope_service.settings import Settings
from bertscope_service.tracing.calls import make_tracer

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
"""Time for calls to end before connections are told that we stop. gRPC cancels, unexplained, calls that it has not handed over
when it is stopped, and those that come in before their clients hear of it: so everybody is refused for a while first."""

HOLD_SECONDS = 0.02
"""Who is kept waiting for an answer or a refusal so long before gRPC's stop and after it does not ask again meanwhile."""

FAREWELL_SECONDS = 0.5
"""Time for what was said last to arrive."""


class Server:
    """A bertscope server on the running event loop.

    >>> server = Server(Settings(port=0, metrics_port=0))
    >>> ports = await server.start()        # listens; health says NOT_SERVING
    >>> await server.load_models()          # then SERVING
    >>> await server.stop(grace_seconds=5)
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._hosting = Hosting(settings, self._device_broke)
        self._guard = Guard(settings, self._hosting.metrics)
        self.metrics, self.engine, self.registry = self._hosting.metrics, self._hosting.engine, self._hosting.registry
        self.metrics.serving.set_function(lambda: self._health.serving)
        limits = CallLimits(settings.max_calls, settings.max_client_calls)
        door = Door(limits, self.metrics, self.engine.crowded)
        self._tracer = make_tracer(settings.trace_endpoint, settings.trace_ratio, bertscope.__version__)
        self._interceptor = CallInterceptor(self.metrics, door, settings.client_identity, self._tracer)
        self._hurried = asyncio.Event()
        self._health = Health(SERVICES)
        self._metrics_server: contextlib.ExitStack = contextlib.ExitStack()
        self._watching: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(
            interceptors=[*self._guard.interceptors, self._interceptor],
            options=server_options(settings),
        )
        add_services(self._server, self._hosting, lambda: self._health.serving)
        self._health.add_to(self._server)
        names = (*SERVICES, health.SERVICE_NAME)
        if settings.channelz:
            channelz.add_channelz(self._server)
            names = (*names, channelz.SERVICE.full_name)
        add_reflection(self._server, names, PROTOS)

    def _device_broke(self, device: torch.device) -> None:
        """From a device's thread: let balancers ask another server, and supervisors start a new one."""
        logger.critical("%s has failed for good; health says NOT_SERVING from now on", device)
        self._loop.call_soon_threadsafe(self._health.end)

    async def start(self) -> Ports:
        """Listen. Raises OSError if a port is taken."""
        self._loop = asyncio.get_running_loop()
        port = listen(self._server, self._settings, self._guard.credentials)
        metrics_port, self._metrics_server = serve_metrics(self.metrics.registry, self._settings)
        self._watching = asyncio.create_task(self._guard.watch())
        await self._server.start()
        return Ports(port, metrics_port)

    async def load_models(self) -> None:
        """Load the models of the settings, one after the other; then health says SERVING. Raises ServiceError."""
        await self._hosting.load_models()
        self._health.begin()

    async def serve_on(self) -> None:
        """Wait until gRPC takes no more calls though nobody stopped it; a flaw in it did that. Raises Unavailable then."""
        with contextlib.suppress(Exception):  # gRPC has logged what it was
            # With a limit, to cancel this wait does not cancel what gRPC itself waits for.
            await self._server.wait_for_termination(math.inf)
        raise Unavailable("gRPC has stopped to serve by itself; start the server again", "GRPC_ENDED")

    async def stop(self, grace_seconds: float, drain_seconds: float = 0.0) -> None:
        """Health says NOT_SERVING, after `drain_seconds` new calls get UNAVAILABLE, those that run after the grace period."""
        was_serving = self._health.serving
        self._health.end()
        if was_serving:
            await _unless(self._hurried, asyncio.sleep(drain_seconds))
        self._interceptor.draining = True
        running, end = self._interceptor.running, time.monotonic() + grace_seconds
        await _unless(self._hurried, self._interceptor.settle(min(grace_seconds, SETTLE_SECONDS)))
        async with self._interceptor.holding():
            await asyncio.sleep(HOLD_SECONDS)
            # From here on connections take no more calls: their clients turn to another server. Calls that run go on; when they
            # have ended is ours to say. Without so much grace gRPC would break connections that are only idle, too, and their
            # clients would complain on standard error.
            farewell = asyncio.create_task(self._server.stop(math.inf))
            await asyncio.sleep(HOLD_SECONDS)
        await _unless(self._hurried, running.finish(end - time.monotonic()))
        await running.cut_off()
        await self._health.end_watches()
        await self._server.stop(FAREWELL_SECONDS)
        await farewell
        if self._watching is not None:
            self._watching.cancel()
        await self.engine.close()
        await self._tracer.close()
        await asyncio.to_thread(self._metrics_server.close)

    def hurry(self) -> None:
        """Cut short what a stop waits for."""
        self._hurried.set()


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
        logger.log(*exposure(settings))
        if await _unless(stopped, server.load_models()):
            logger.info("serving")
            await _unless(stopped, server.serve_on())
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
