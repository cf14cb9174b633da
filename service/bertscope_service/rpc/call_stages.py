"""The stages around a call, each with one duty. interceptors.py states their order."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import grpc
from grpc_status import rpc_status

from bertscope_service.contract import Method
from bertscope_service.errors import Overloaded, ServiceError
from bertscope_service.observability import call_notes
from bertscope_service.observability.metrics import MethodMetrics
from bertscope_service.observability.request_ids import REQUEST_ID, request_id
from bertscope_service.observability.tracing import CallSpan, Metadata, Tracer
from bertscope_service.rpc.calls_in_flight import CallsInFlight
from bertscope_service.rpc.load_shedding import RefusalLog
from bertscope_service.rpc.status import to_status, without_memory
from bertscope_service.security import callers

logger = logging.getLogger("bertscope.requests")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(slots=True, eq=False)
class Call:
    """A call, and the data that its stages share.

    code: the name of its status, known once it has passed `ErrorsToStatus`. reason: that of an error. level: of its line in the
    log. trace_id: "" if it is not traced. stopped: whether the server refused it or cut it off because it stops.
    """

    method: Method
    context: Context
    metadata: Metadata
    id: str
    peer: str
    began: float
    code: str = "OK"
    reason: str = ""
    level: int = logging.INFO
    trace_id: str = ""
    stopped: bool = False

    @classmethod
    def of(cls, method: Method, context: Context) -> Call:
        """Describes a call that has just come. The peer is read now: gRPC frees the call when its client disconnects, and
        reading the peer then crashes the process."""
        metadata = context.invocation_metadata() or ()
        return cls(method, context, metadata, request_id(metadata), context.peer(), time.perf_counter())


# The stages are classes: generators with @contextmanager take longer, and every call passes all of them.


class Logging:
    """Writes one line when the call has ended."""

    __slots__ = ("_call", "_models")

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._models = call_notes.begin()

    def __exit__(self, *_: object) -> None:
        call = self._call
        if not logger.isEnabledFor(call.level):
            return
        milliseconds = round((time.perf_counter() - call.began) * 1000, 2)
        fields = {"method": call.method.name, "code": call.code, "milliseconds": milliseconds, "request_id": call.id}
        known = callers.principal.get()
        more = {"client": known.name if known is not None else "", "trace_id": call.trace_id}
        if call.code != "OK":
            more |= {"reason": call.reason, "model": ",".join(self._models), "peer": call.peer}
        fields |= {name: value for name, value in more.items() if value}
        logger.log(call.level, "request", extra=fields)


class Tracing:
    """Makes the call a span, if it is to be traced: ends what `begin` began, with the status of the call."""

    __slots__ = ("_call", "_span", "_tracer")

    def __init__(self, call: Call, tracer: Tracer) -> None:
        self._call = call
        self._tracer = tracer
        self._span: CallSpan | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Starts the span. Raises what the tracer raises, so `ErrorsToStatus` has to be around it."""
        self._span = self._tracer.begin(self._call.method.path, self._call.metadata, self._call.id)
        if self._span is not None:
            self._call.trace_id = self._span.trace_id

    def __exit__(self, *_: object) -> None:
        if self._span is not None:
            self._span.end(self._call.code)


class Counting:
    """Counts and times the call."""

    __slots__ = ("_call", "_metrics")

    def __init__(self, call: Call, metrics: MethodMetrics) -> None:
        self._call = call
        self._metrics = metrics

    def __enter__(self) -> None:
        self._metrics.began()

    def __exit__(self, *_: object) -> None:
        self._metrics.ended(self._call.code, time.perf_counter() - self._call.began)


class ErrorsToStatus:
    """Turns exceptions into the status that the client gets. The request id comes back with every status."""

    __slots__ = ("_call", "_refusals")

    def __init__(self, call: Call, refusals: RefusalLog) -> None:
        self._call = call
        self._refusals = refusals

    async def __aenter__(self) -> None:
        self._call.context.set_trailing_metadata(((REQUEST_ID, self._call.id),))

    async def __aexit__(self, _: object, raised: BaseException | None, __: object) -> None:
        if isinstance(raised, (asyncio.CancelledError, GeneratorExit)):
            late = self._call.context.time_remaining() == 0
            self._call.code = "UNAVAILABLE" if self._call.stopped else "DEADLINE_EXCEEDED" if late else "CANCELLED"
        elif isinstance(raised, Exception):
            await self._abort(raised)

    async def _abort(self, raised: Exception) -> None:
        """Ends the call with the status of an error. Always raises."""
        call, error = self._call, without_memory(raised)
        status = rpc_status.to_status(to_status(error, call.id))
        call.code, call.reason = status.code.name, error.reason if isinstance(error, ServiceError) else "INTERNAL"
        if status.code is grpc.StatusCode.INTERNAL:
            logger.error("%s failed", call.method.name, exc_info=raised, extra={"request_id": call.id})
        if isinstance(error, Overloaded):
            call.level = logging.DEBUG
            self._refusals.note(error)
        try:
            await call.context.abort(status.code, status.details, (*status.trailing_metadata, (REQUEST_ID, call.id)))
        except grpc.aio.InternalError:
            # The client is gone: its deadline passes there in the same moment as here.
            raise asyncio.CancelledError from raised


class InFlight:
    """Registers the call with those that a stop waits for, or cuts off."""

    __slots__ = ("_call", "_calls")

    def __init__(self, call: Call, calls: CallsInFlight) -> None:
        self._call = call
        self._calls = calls

    def __enter__(self) -> None:
        self._calls.begin(self._call.context)

    def __exit__(self, *_: object) -> None:
        self._call.stopped = self._call.context not in self._calls
        self._calls.end(self._call.context)
