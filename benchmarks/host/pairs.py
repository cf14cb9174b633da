"""Defines a call of a client beside the same of a bare stub, and their costs; both are pickled between processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """A call of the client and the same one of the generated stub."""

    target: str
    method: str
    """A key of `stubs.METHODS`."""
    request: bytes
    asynchronous: bool
    callers: int
    """Threads that share a `Client`, or tasks that share an `AsyncClient`."""
    reading: bool
    """True if the callers read every number of a reply."""
    connecting: bool
    """True if each call opens a connection and closes it."""
    rounds: int
    seconds: float
    """Duration of each side in each round."""


@dataclass(slots=True)
class Costs:
    """CPU seconds of the calling process for one call, round by round."""

    bare: list[float]
    ours: list[float]

    @property
    def ratios(self) -> list[float]:
        """The client's over the stub's."""
        return [ours / bare for ours, bare in zip(self.ours, self.bare, strict=True)]
