"""Lends a device to one caller: its worker runs that caller's functions, and nobody's rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.rows import future_error

T = TypeVar("T")
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 600.0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function for the worker's thread, and the future for its result. It runs at most this many tokens of a model at a
    time."""

    function: Callable[[], Any]
    encoder: Encoder | None = None
    tokens: int = 0
    future: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        """Runs the function on the worker's thread; does nothing if nobody waits for it any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            with torch.inference_mode():
                result = self.function()
        except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
            self._set(self.future.set_exception, future_error(error))
        else:
            self._set(self.future.set_result, result)

    def refuse(self, error: Exception) -> None:
        """Fails the call with an error if its caller still waits, even while the function runs."""
        future = self.future
        if not future.done() and (future.running() or future.set_running_or_notify_cancel()):
            self._set(future.set_exception, error)

    @staticmethod
    def _set(setter: Callable[[T], None], outcome: T) -> None:
        """Sets the outcome, unless the future has another one already."""
        with suppress(InvalidStateError):
            setter(outcome)


class Lender(Protocol):
    """The part of a worker that a lease needs."""

    def enqueue(self, call: Call) -> None:
        """Runs a call before any row. Raises Unavailable after the worker's end."""


class Lease:
    """A lent device. It belongs to the event loop that it was made on.

    `refuse`: jobs of others are rejected at once; otherwise they wait. `waited` and `refused` count them, including jobs that
    waited when the lease began; jobs admitted before always wait.
    """

    def __init__(self, device: torch.device, lender: Lender, *, refuse: bool) -> None:
        self.device = device
        self.refuse = refuse
        self.waited = 0
        self.refused = 0
        self._lender = lender
        self._ends = time.monotonic()

    async def call(self, function: Callable[[], T], *, encoder: Encoder | None = None, tokens: int = 0) -> T:
        """Runs a function on the device's worker, in inference mode, after the running batch; its exceptions are raised here.

        Cancelling gives up on the result: a function that has begun continues, and one that has not never begins. So it should
        take a fraction of a second. If it runs many tokens of an encoder at once (padding included), pass their number, for the
        device counts as stalled when it takes much longer than they explain. Raises Unavailable when the server stops, or the
        device stalls.
        """
        call = Call(function, encoder, tokens)
        self._lender.enqueue(call)
        result: T = await asyncio.wrap_future(call.future)
        return result

    def expect(self, seconds: float) -> None:
        """Sets how many seconds the lease will still take; rejected callers should retry then."""
        self._ends = time.monotonic() + seconds

    @property
    def retry_after(self) -> float:
        """Seconds from now after which rejected callers should retry."""
        return min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, self._ends - time.monotonic()))
