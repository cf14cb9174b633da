"""Makes calls in threads, and counts what fails."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

import bertscope

from benchmarks.lib.texts import cloze_texts

CALL_SECONDS = 60.0
PAUSE_SECONDS = 0.1
"""The pause of a caller between two calls: the servers need a core to start."""

STREAMED_TEXTS = 4

Ask = Callable[[], object]
Caller = Callable[[], AbstractContextManager[Ask]]
"""Connects, and gives a function that makes one call."""


@dataclass(slots=True)
class Tally:
    """The calls of one caller: the seconds that each answered one took, and the errors of the others."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class Callers:
    """Threads that make calls while this is entered."""

    def __init__(self, title: str, callers: Sequence[Caller]) -> None:
        self.title = title
        self.tallies = [Tally() for _ in callers]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_asking, args=(caller, tally))
            for caller, tally in zip(callers, self.tallies, strict=True)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def answered(self) -> list[int]:
        """The answers that each caller has had."""
        return [len(tally.seconds) for tally in self.tallies]

    @property
    def errors(self) -> Counter[str]:
        """How often each error came."""
        return sum((tally.errors for tally in self.tallies), Counter())

    def _keep_asking(self, caller: Caller, tally: Tally) -> None:
        with caller() as ask:
            while not self._stop.is_set():
                began = time.perf_counter()
                try:
                    ask()
                except (bertscope.BertscopeError, OSError, http.client.HTTPException) as error:
                    tally.errors[f"{type(error).__name__}: {error}"] += 1
                else:
                    tally.seconds.append(time.perf_counter() - began)
                self._stop.wait(PAUSE_SECONDS)


def by_grpc(target: str, options: Sequence[tuple[str, Any]] = ()) -> list[Caller]:
    """Returns callers each with its own connection: two fill masks, two read streams of attention."""
    alone = [("grpc.use_local_subchannel_pool", 1), *options]

    @contextmanager
    def filling() -> Iterator[Ask]:
        with bertscope.Client(target, options=alone) as client:
            yield lambda: client.fill_mask(cloze_texts()[0])

    @contextmanager
    def reading() -> Iterator[Ask]:
        with bertscope.Client(target, options=alone) as client:
            yield lambda: [maps.text for maps in client.extract_attention(cloze_texts()[:STREAMED_TEXTS])]

    return [filling, filling, reading, reading]


def by_http(port: int) -> list[Caller]:
    """Returns callers of the web service, each with its own connection."""

    @contextmanager
    def filling() -> Iterator[Ask]:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)) as connection:

            def ask() -> None:
                connection.request("GET", f"/fill?text={quote(cloze_texts()[0])}")
                reply = connection.getresponse()
                body = reply.read()
                if reply.status != http.client.OK:
                    raise http.client.HTTPException(f"{reply.status}: {body.decode(errors='replace')}")

            yield ask

    return [filling] * 4
