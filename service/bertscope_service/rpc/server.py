"""Assembles the server, runs it, and stops it without losing running calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import bertscope
import grpc
from grpc_health.v1 import health

from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import RequestMemory
from bertscope_service.contract import FILES, METHODS, SERVICES, Method
from bertscope_service.engine.daemon_thread import in_daemon_thread
from bertscope_service.errors import Overloaded, Unavailable
from bertscope_service.models.freed_memory import FreedMemory
from bertscope_service.observability.loop_monitor import LoopMonitor
from bertscope_service.observability.metrics import Metrics
from bertscope_service.observability.tracer import make_tracer
from bertscope_service.rpc import channelz
from bertscope_service.rpc.access_summary import access_summary
from bertscope_service.rpc.addresses import joined
from bertscope_service.rpc.call_stages import Calls
from bertscope_service.rpc.connections import server_options
from bertscope_service.rpc.health import Health
from bertscope_service.rpc.http_port import serve_http
from bertscope_service.rpc.interceptors import CallInterceptor
from bertscope_service.rpc.listeners import Ports, listen, write_ports
from bertscope_service.rpc.load_shedding import CallLimits, LoadShedder
from bertscope_service.rpc.malformed import Malformed
from bertscope_service.rpc.model_libraries import import_hosting, libraries
from bertscope_service.rpc.reflection import add_reflection
from bertscope_service.rpc.registration import add_methods
from bertscope_service.rpc.server_security import ServerSecurity
from bertscope_service.settings import Settings

if TYPE_CHECKING:
    import torch

    from bertscope_service.engine.engine import Engine
    from bertscope_service.models.registry import Registry
    from bertscope_service.rpc.hosting import Hosting

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
"""The time for calls to end before connections are closed to new calls. gRPC cancels, without a reason, calls that it
has not handed over when it is stopped, and calls that arrive before their clients learn of it: so all calls are rejected for a
while first."""

HOLD_SECONDS = 0.02
"""Replies are held this long around gRPC's stop, so that clients do not retry on a closing connection."""

CLOSE_SECONDS = 2.0
"""The time for a device to finish its running batch, whose results are dropped. Native code can't be interrupted."""

STOP_SECONDS = 10.0
"""The time for all of a stop but the waits that settings bound. A stop that takes longer hangs."""

FLUSH_SECONDS = 0.5
"""The time for the last messages to arrive."""


class Server:
    """A bertscope server on the running event loop.

    >>> server = Server(Settings(port=0, metrics_port=0))
    >>> ports = await server.start()        # listens; health says NOT_SERVING, every method UNAVAILABLE
    >>> await server.host()                 # imports what runs models; now methods answer, for the models that are loaded
    >>> await server.load_models()          # then SERVING
    >>> await server.stop(grace_seconds=5)
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._hosted: Hosting | None = None
        self._answers: Mapping[str, Callable[..., Any]] = {}
        self.metrics = Metrics()
        self.metrics.build_info.labels(bertscope.__version__).set(1)
        self.metrics.serving.set_function(lambda: self._health.serving)
        self._security = ServerSecurity(settings, self.metrics)
        limits = CallLimits(settings.max_calls, settings.max_client_calls)
        load_shedder = LoadShedder(limits, self.metrics, self._overload)
        freed = FreedMemory()
        self._replies, self._requests = ReplyMemory(self.metrics, freed), RequestMemory(self.metrics, freed)
        self._tracer = make_tracer(settings.trace_endpoint, settings.trace_ratio, bertscope.__version__)
        self._malformed = Malformed(self.metrics)
        self._calls = Calls(self.metrics, load_shedder, settings.client_identity, self._replies, self._requests, self._tracer)
        self._interceptor = CallInterceptor(self._calls, self._malformed, self._compute)
        self._loop_monitor = LoopMonitor(self.metrics.loop_delay_seconds.observe)
        self._stop_now = asyncio.Event()
        self._health = Health(SERVICES)
        self._metrics_server: contextlib.ExitStack = contextlib.ExitStack()
        self._watching: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(
            interceptors=[*self._security.interceptors, self._interceptor],
            options=server_options(settings),
        )
        add_methods(self._server, METHODS.values(), self._answer)
        self._health.add_to(self._server)
        names = (*SERVICES, health.SERVICE_NAME)
        if settings.channelz:
            channelz.add_channelz(self._server)
            names = (*names, channelz.SERVICE.full_name)
        add_reflection(self._server, names, FILES)

    @property
    def _hosting(self) -> Hosting:
        if self._hosted is None:
            raise RuntimeError("the server hosts no models yet; call host()")
        return self._hosted

    @property
    def engine(self) -> Engine:
        """Runs the models."""
        return self._hosting.engine

    @property
    def registry(self) -> Registry:
        """The models."""
        return self._hosting.registry

    def _answer(self, method: Method) -> Callable[..., Any]:
        """Returns the function that answers a method, also while nothing can be answered yet."""

        def answer(request: Any, context: Any) -> Any:
            found = self._answers.get(method.path)
            if found is None:
                raise _starting()
            return found(request, context)

        return answer

    async def _compute(self, work: Callable[[], Any], *, client: str, deadline: float | None) -> Any:
        """Runs a computation in a thread; see Engine.compute."""
        if self._hosted is None:
            raise _starting()
        return await self._hosted.engine.compute(work, client=client, deadline=deadline)

    def _overload(self, client: str, remaining: float | None) -> Overloaded | None:
        return None if self._hosted is None else self._hosted.engine.overload(client, remaining)

    def _device_broke(self, device: torch.device) -> None:
        """Called from a device's thread: makes load balancers use another server, and supervisors start a new one."""
        logger.critical("%s has failed for good; health says NOT_SERVING from now on", device)
        self._loop.call_soon_threadsafe(self._health.end)

    def _device_stalled(self, device: torch.device, stalled: bool) -> None:
        """Called on the loop when a batch takes far too long, or has ended after all."""
        if stalled:
            self._health.pause(str(device))
        else:
            self._health.resume(str(device))

    async def start(self) -> Ports:
        """Opens the ports. Raises OSError if a port is taken."""
        self._loop = asyncio.get_running_loop()
        self._loop_monitor.begin()
        port = listen(self._server, self._settings.address, self._security.credentials)
        metrics_port, self._metrics_server = serve_http(
            self.metrics.registry, lambda: self._health.serving, self._settings.metrics_address
        )
        self._watching = asyncio.create_task(self._security.watch())
        self._malformed.begin()
        await self._server.start()
        return Ports(port, metrics_port)

    async def host(self) -> None:
        """Imports what runs models, in a thread: it takes seconds. Raises InvalidArgument, AlreadyExists for the models of the
        settings."""
        hosting, make_answers = await import_hosting()
        self._hosted = hosting(
            self._settings, self.metrics, self._replies, self._requests, self._device_broke, self._device_stalled
        )
        self._answers = make_answers(self._hosted, lambda: self._health.serving)

    async def load_models(self) -> None:
        """Loads the models of the settings, one after the other; then health says SERVING. Raises ServiceError."""
        await self._hosting.load_models()
        self._health.begin()

    async def serve_on(self) -> None:
        """Waits until gRPC stops taking calls though nobody stopped it, because of an error in gRPC. Raises Unavailable
        then."""
        with contextlib.suppress(Exception):  # gRPC has logged the error
            # With a limit, cancelling this wait does not cancel gRPC's own wait.
            await self._server.wait_for_termination(math.inf)
        raise Unavailable("gRPC has stopped to serve by itself; start the server again", "GRPC_ENDED")

    async def stop(self, grace_seconds: float, drain_seconds: float = 0.0) -> None:
        """Sets NOT_SERVING, rejects new calls with UNAVAILABLE after `drain_seconds`, and ends running calls after the grace
        period."""
        was_serving = self._health.serving
        self._health.end()
        if was_serving:
            await _unless(self._stop_now, asyncio.sleep(drain_seconds))
        self._calls.draining = True
        calls, end = self._calls.in_flight, time.monotonic() + grace_seconds
        await _unless(self._stop_now, self._interceptor.wait_until_idle(min(grace_seconds, SETTLE_SECONDS)))
        async with self._calls.holding_replies():
            await asyncio.sleep(HOLD_SECONDS)
            # From here on connections take no more calls: their clients use another server. Running calls continue, and this
            # method decides when they have ended. Without an unlimited grace period gRPC would also break idle connections,
            # which their clients report on standard error.
            stopping = asyncio.create_task(self._server.stop(math.inf))
            await asyncio.sleep(HOLD_SECONDS)
        await _unless(self._stop_now, calls.finish(end - time.monotonic()))
        await calls.cut_off()
        await self._health.end_watches()
        await self._server.stop(FLUSH_SECONDS)
        await stopping
        self._malformed.end()
        if self._watching is not None:
            self._watching.cancel()
        if self._hosted is not None:
            await self._hosted.engine.close(CLOSE_SECONDS)
        await self._tracer.close()
        await in_daemon_thread(self._metrics_server.close)
        self._loop_monitor.end()

    def stop_now(self) -> None:
        """Cuts short the waits of a stop."""
        self._stop_now.set()


def _starting() -> Unavailable:
    what = "the server starts and has not loaded its models yet"
    return Unavailable(f"{what}; call another server, or wait until its health says SERVING", "SERVER_STARTING")


async def serve(settings: Settings, began: float, overdue: Callable[[], None] = lambda: None) -> None:
    """Runs a server until SIGTERM or SIGINT; a second one ends it at once. Raises OSError and ServiceError if it can't start.

    `began` is the start of the process, time.monotonic(), from which the log measures. `overdue` is called in another thread if
    the stop takes longer than it may, whatever holds it up.
    """
    server, stopped = Server(settings), asyncio.Event()
    timers: list[threading.Timer] = []

    def signalled() -> None:
        waits = 0.0 if stopped.is_set() else settings.drain_seconds + settings.grace_seconds
        if stopped.is_set():
            server.stop_now()
        stopped.set()
        timer = threading.Timer(min(waits + STOP_SECONDS, threading.TIMEOUT_MAX), overdue)
        timer.daemon = True
        timer.start()
        timers.append(timer)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    ports = await server.start()
    listening = time.monotonic()
    try:
        write_ports(settings.port_file, ports)
        place = joined(settings.host, ports.grpc)
        logger.info("listening on %s, metrics on port %d, after %.2f s", place, ports.metrics, listening - began)
        logger.log(*access_summary(settings))
        if await _unless(stopped, _load(server, began)):
            logger.info("serving, %.2f s after the start", time.monotonic() - began)
            await _unless(stopped, server.serve_on())
        logger.info("stopping: running calls have %g s to finish", settings.grace_seconds)
    finally:
        await server.stop(settings.grace_seconds, settings.drain_seconds)
        for timer in timers:
            timer.cancel()
        logger.info("stopped, after %.2f s of service", time.monotonic() - listening)


async def _load(server: Server, began: float) -> None:
    await server.host()
    logger.info("imported after %.2f s: %s", time.monotonic() - began, libraries())
    await server.load_models()


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Runs a coroutine until an event is set. Returns whether it finished."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(event.wait())
    await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if doing.done():
        await doing
        return True
    doing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await doing
    return False
