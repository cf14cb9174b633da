"""What became of the calls, and what should not have."""

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
"""So many faults are kept in words; all are counted."""

OK = "OK"
ALWAYS = frozenset({OK, "RESOURCE_EXHAUSTED"})
"""What any call may end with: a server under load may refuse it."""


@dataclass(slots=True)
class Tally:
    """Counts by kind of call and code, and the faults."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    wrong: int = 0
    """Answers that were not the true one."""
    unexpected: int = 0
    """Calls that ended with a code that nothing explains; INTERNAL and UNKNOWN always are."""

    def ended(self, kind: str, code: str, allowed: Collection[str], message: str = "") -> None:
        """A call has ended so, and might have ended with one of the `allowed` codes."""
        self.counts[kind, code] += 1
        if code not in allowed:
            self.unexpected += 1
            self._keep(f"{kind}: {code} {message}".rstrip())

    def was_wrong(self, kind: str, why: str) -> None:
        """An answer was not the true one."""
        self.wrong += 1
        self._keep(f"{kind}: {why}")

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not self.wrong and not self.unexpected

    def _keep(self, fault: str) -> None:
        if len(self.faults) < KEPT:
            self.faults.append(fault)


def code_of(error: bertscope.BertscopeError | grpc.aio.AioRpcError) -> str:
    """The name of the status that a call failed with, by either client."""
    code = error.code() if isinstance(error, grpc.aio.AioRpcError) else error.code
    return code.name


async def counted(tally: Tally, kind: str, call: Awaitable[T], allowed: Collection[str]) -> T | None:
    """What a call gives, None if it fails; either is counted."""
    try:
        result = await call
    except (bertscope.BertscopeError, grpc.aio.AioRpcError) as error:
        tally.ended(kind, code_of(error), allowed, " ".join(str(error).split()))
        return None
    tally.ended(kind, OK, allowed)
    return result
