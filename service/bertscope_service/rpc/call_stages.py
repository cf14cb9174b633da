"""A call from its arrival to its status: who asks, whether it may run, and what is counted, traced and logged about it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc

from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import RequestMemory, received
from bertscope_service.contract import Method, Work
from bertscope_service.engine.refusals import stopping
from bertscope_service.errors import Overloaded, ServiceError
from bertscope_service.observability import call_notes
from bertscope_service.observability.logs import log_call
from bertscope_service.observability.metrics import MethodMetrics, Metrics
from bertscope_service.observability.request_ids import REQUEST_ID, request_id
from bertscope_service.observability.tracing import CallSpan, NoTracer, Tracer
from bertscope_service.rpc.calls_in_flight import CallsInFlight
from bertscope_service.rpc.load_shedding import Admitted, LoadShedder, RefusalLog
from bertscope_service.rpc.status import SentStatus, sent_status, without_float64, without_memory
from bertscope_service.security import callers

LARGE_REPLY_BYTES = 1024 * 1024
"""Larger replies are serialised in a thread, in parts."""

logger = logging.getLogger("bertscope.requests")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(slots=True, eq=False)
class Calls:
    """The state that all calls of a server share.

    answering: while it is not set, replies and refusals are held back. draining: the server takes no new calls.
    """

    metrics: Metrics
    load_shedder: LoadShedder
    identity: callers.Identity
    reply_memory: ReplyMemory
    request_memory: RequestMemory
    tracer: Tracer = field(default_factory=NoTracer)
    refusals: RefusalLog = field(default_factory=RefusalLog)
    in_flight: CallsInFlight = field(default_factory=CallsInFlight)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    draining: bool = False

    def __post_init__(self) -> None:
        self.answering.set()

    @contextlib.asynccontextmanager
    async def holding_replies(self) -> AsyncIterator[None]:
        """Holds back replies and rejections: a client that gets one calls again at once, perhaps on a closing connection."""
        self.answering.clear()
        try:
            yield
        finally:
            self.answering.set()


class Call:
    """One call. Its handler makes it first, then calls `admit`; after an error `fail`, or `cut_off` if it was cancelled; and at
    last `end`.

    These are plain functions and not nested context managers, which cost more: every call takes them, refused ones too.
    """

    __slots__ = (
        "_admitted",
        "_began",
        "_calls",
        "_code",
        "_context",
        "_counts",
        "_id",
        "_in_flight",
        "_level",
        "_metadata",
        "_method",
        "_models",
        "_peer",
        "_reason",
        "_span",
        "_stopped",
        "client",
    )

    def __init__(self, calls: Calls, method: Method, counts: MethodMetrics, context: Context) -> None:
        """Notes the arrival of a call."""
        self._began = time.perf_counter()
        self._calls, self._method, self._counts, self._context = calls, method, counts, context
        # Read now: gRPC frees the call when its client disconnects, and reading the peer then crashes the process.
        self._peer = context.peer()
        self._metadata = context.invocation_metadata() or ()
        self._id = request_id(self._metadata)
        self._code, self._reason, self._level = "OK", "", logging.INFO
        self._span: CallSpan | None = None
        self._admitted: Admitted | None = None
        self._in_flight = self._stopped = False
        self._models = call_notes.begin()
        self.client = ""
        counts.began()
        context.set_trailing_metadata(((REQUEST_ID, self._id),))

    async def admit(self) -> None:
        """Identifies the client, and counts the call against its limits. Raises Overloaded; Unavailable while draining."""
        calls, context = self._calls, self._context
        self._span = calls.tracer.begin(self._method.path, self._metadata, self._id)
        if calls.draining and self._method.work is not Work.PROBE:
            self._stopped = True
            calls.metrics.rejected.labels("draining").inc()
            await calls.answering.wait()
            raise stopping()
        self.client = callers.identify(self._peer, calls.identity)
        callers.current.set(self.client)
        self._admitted = calls.load_shedder.admit(self._method.work, self.client, context.time_remaining())
        calls.in_flight.begin(context)
        self._in_flight = True

    @property
    def deadline(self) -> float | None:
        """The time.monotonic() when nobody waits for the answer any more; None if somebody always does."""
        # Not by the engine's deadline_after: its import brings PyTorch, and a server that starts answers before that.
        remaining = self._context.time_remaining()
        return None if remaining is None else time.monotonic() + remaining

    def received(self, request: bytes, *, large: bool) -> None:
        """Counts a request, and a large one against the memory for requests. Raises Overloaded."""
        received.set(len(request))
        if large:
            self._calls.request_memory.receive(self.client, len(request))
        self._counts.received(request)

    @property
    def large_reply(self) -> bool:
        """True if the reply takes longer to serialise than the loop may be held."""
        return self._calls.reply_memory.held() > LARGE_REPLY_BYTES

    def hold(self, reply: bytes, *, begun: bool = False) -> bytes:
        """Counts a reply that is about to be sent against the memory for replies. Raises Overloaded; not if the reply of a
        stream has `begun`."""
        self._calls.reply_memory.hold(self.client, len(reply), begun=begun)
        return self._counts.sent(reply)

    async def may_answer(self) -> None:
        """Waits while replies are held back."""
        if not self._calls.answering.is_set():
            await self._calls.answering.wait()

    def fail(self, raised: BaseException) -> SentStatus:
        """Returns the status by which the client gets an error."""
        error = without_float64(without_memory(raised))
        status = sent_status(error, self._id)
        self._code, self._reason = status.code.name, error.reason if isinstance(error, ServiceError) else "INTERNAL"
        if status.code is grpc.StatusCode.INTERNAL:
            logger.error("%s failed", self._method.name, exc_info=raised, extra={"request_id": self._id})
        if isinstance(error, Overloaded):
            self._level = logging.DEBUG
            self._calls.refusals.note(error)
        return status

    def cut_off(self) -> None:
        """Notes that the call was cancelled: by its client, by gRPC at its deadline, or because the server stops."""
        self._stopped = self._stopped or (self._in_flight and self._context not in self._calls.in_flight)
        late = self._context.time_remaining() == 0
        self._code = "UNAVAILABLE" if self._stopped else "DEADLINE_EXCEEDED" if late else "CANCELLED"

    def end(self) -> None:
        """Notes that the status of the call is known."""
        if self._in_flight:
            self._calls.in_flight.end(self._context)
        if self._admitted is not None:
            self._admitted.end()
        seconds = time.perf_counter() - self._began
        self._counts.ended(self._code, seconds)
        if self._span is not None:
            self._span.end(self._code)
        if logger.isEnabledFor(self._level):
            self._log(seconds)

    def _log(self, seconds: float) -> None:
        fields: dict[str, object] = {"method": self._method.name, "code": self._code, "milliseconds": round(seconds * 1000, 2)}
        if self._code != "OK":
            fields |= {"reason": self._reason, "model": ",".join(self._models), "peer": self._peer}
        known = callers.principal.get()
        fields |= {"client": known.name if known is not None else "", "request_id": self._id}
        fields["trace_id"] = self._span.trace_id if self._span is not None else ""
        log_call(logger, self._level, fields)
