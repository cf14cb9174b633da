"""A device that is lent to one caller: its worker runs that caller's functions, and nobody's rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch

from bertscope_service.errors import Unavailable

T = TypeVar("T")
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 600.0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function for the worker's thread, and where its result goes."""

    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        """On the worker's thread; does nothing if nobody waits for it any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            with torch.inference_mode():
                result = self.function()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def refuse(self, error: Exception) -> None:
        """Tell the caller, if one still waits, why the worker has stopped."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Lender(Protocol):
    """A worker, as a lease needs it."""

    def enqueue(self, call: Call) -> None:
        """Run a call before any row. Raises Unavailable after the worker's end."""


class Lease:
    """A device while it is lent. Belongs to the event loop it was made on.

    `refuse`: others are turned away at once; without, they wait. `waited` and `refused` count their jobs, those included that
    waited when it began; what was admitted before always waits.
    """

    def __init__(self, device: torch.device, lender: Lender, *, refuse: bool) -> None:
        self.device = device
        self.refuse = refuse
        self.waited = 0
        self.refused = 0
        self._lender = lender
        self._ends = time.monotonic()

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function on the device's worker, in inference mode, after the batch at work; what it raises comes back.

        Cancelling gives up on the result: a function that has begun runs on, one that has not never does. So it should take
        a fraction of a second. Raises Unavailable when the server stops.
        """
        call = Call(function)
        self._lender.enqueue(call)
        result: T = await asyncio.wrap_future(call.future)
        return result

    def expect(self, seconds: float) -> None:
        """Say how long it will still take; those who are refused are told so."""
        self._ends = time.monotonic() + seconds

    @property
    def retry_after(self) -> float:
        """When to try again, seconds from now."""
        return min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, self._ends - time.monotonic()))


def stopping() -> Unavailable:
    """What everybody hears who waits when the server stops."""
    return Unavailable("the server is stopping; ask another one", "DRAINING")
