"""Runs work in threads beside a measurement: one piece of work, or callers that make one call after another."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import bertscope
import grpc

OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
"""The option of a connection that no other client of this process shares."""

TEXT = "Paris is the capital of [MASK]."
"""The text of a small call."""

LOOK_SECONDS = 0.05
ERRORS = (bertscope.BertscopeError, grpc.RpcError, OSError, http.client.HTTPException)

Ask = Callable[[], object]
Caller = Callable[[], AbstractContextManager[Ask]]
"""Connects, and gives a function that makes one call."""


@contextmanager
def beside(work: Callable[[threading.Event, threading.Event], object]) -> Iterator[None]:
    """Runs `work(begun, over)` in a thread meanwhile: it sets `begun` when it is under way, and ends soon after `over` is set.

    Raises its error when this leaves.
    """
    begun, over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(work, begun, over)
        running.add_done_callback(lambda _: begun.set())
        begun.wait()
        try:
            yield
        finally:
            over.set()
        running.result()


@dataclass(frozen=True, slots=True)
class Call:
    """The begin and end of a call, seconds on one clock, and its error, "" if it was answered."""

    began: float
    ended: float
    error: str

    @property
    def seconds(self) -> float:
        """The time that it took."""
        return self.ended - self.began


class Callers:
    """Callers in threads while this is entered. `calls` are by caller; a caller pauses for so many seconds after each call."""

    def __init__(self, callers: Sequence[Caller], pause: float = 0.0) -> None:
        self.calls: list[list[Call]] = [[] for _ in callers]
        self._pause, self._over = pause, threading.Event()
        pairs = zip(callers, self.calls, strict=True)
        self._threads = [threading.Thread(target=self._keep_asking, args=pair) for pair in pairs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def seconds(self) -> list[float]:
        """The time of each answered call."""
        return [call.seconds for calls in self.calls for call in calls if not call.error]

    @property
    def errors(self) -> Counter[str]:
        """How often each error came."""
        return Counter(call.error for calls in self.calls for call in calls if call.error)

    def answered(self) -> list[int]:
        """Returns the answers that each caller has had so far."""
        return [sum(not call.error for call in calls) for calls in self.calls]

    def wait_for_answers(self, count: int) -> None:
        """Waits until each caller has had so many more answers."""
        wanted = [had + count for had in self.answered()]
        while any(had < least for had, least in zip(self.answered(), wanted, strict=True)):
            time.sleep(LOOK_SECONDS)

    def _keep_asking(self, caller: Caller, calls: list[Call]) -> None:
        with caller() as ask:
            while not self._over.is_set():
                began, error = time.perf_counter(), ""
                try:
                    ask()
                except ERRORS as raised:
                    error = f"{type(raised).__name__}: {raised}"
                calls.append(Call(began, time.perf_counter(), error))
                self._over.wait(self._pause)


@contextmanager
def filling(target: str, options: Sequence[tuple[str, Any]] = ()) -> Iterator[Ask]:
    """Connects a caller of its own, which fills the mask of a small text."""
    with bertscope.Client(target, options=[OWN_CONNECTION, *options]) as client:
        yield lambda: client.fill_mask(TEXT)


@contextmanager
def streaming(target: str, texts: Sequence[str], options: Sequence[tuple[str, Any]] = ()) -> Iterator[Ask]:
    """Connects a caller of its own, which reads the attention maps of some texts."""
    with bertscope.Client(target, options=[OWN_CONNECTION, *options]) as client:
        yield lambda: [maps.text for maps in client.extract_attention(texts)]
