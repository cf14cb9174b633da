"""Counts the outcomes of calls, and the faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

import bertscope
import grpc
import grpc.aio

T = TypeVar("T")
KEPT = 50
"""This many faults are kept in words; all are counted."""

OK = "OK"
ALWAYS = frozenset({OK, "RESOURCE_EXHAUSTED"})
"""Codes with which any call may end: a server under load may reject it."""


@dataclass(slots=True)
class Tally:
    """Counts by kind of call and code, and the faults."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    wrong: int = 0
    """Number of wrong answers."""
    unexpected: int = 0
    """Calls that ended with an unexplained code; INTERNAL and UNKNOWN always are."""

    def ended(self, kind: str, code: str, allowed: Collection[str], message: str = "") -> None:
        """Counts a call that ended with a code, and might have ended with one of the `allowed` codes."""
        self.counts[kind, code] += 1
        if code not in allowed:
            self.unexpected += 1
            self._keep(f"{kind}: {code} {message}".rstrip())

    def was_wrong(self, kind: str, why: str) -> None:
        """Counts a wrong answer."""
        self.wrong += 1
        self._keep(f"{kind}: {why}")

    @property
    def clean(self) -> bool:
        """True if there was no fault."""
        return not self.wrong and not self.unexpected

    def _keep(self, fault: str) -> None:
        if len(self.faults) < KEPT:
            self.faults.append(fault)


def code_of(error: bertscope.BertscopeError | grpc.aio.AioRpcError) -> str:
    """Returns the name of the status that a call failed with, by either client."""
    code = error.code() if isinstance(error, grpc.aio.AioRpcError) else error.code
    return code.name


async def counted(tally: Tally, kind: str, call: Awaitable[T], allowed: Collection[str]) -> T | None:
    """Returns the result of a call, None if it fails; counts either."""
    try:
        result = await call
    except (bertscope.BertscopeError, grpc.aio.AioRpcError) as error:
        tally.ended(kind, code_of(error), allowed, " ".join(str(error).split()))
        return None
    tally.ended(kind, OK, allowed)
    return result
