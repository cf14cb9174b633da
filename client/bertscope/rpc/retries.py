"""Defines how often a client retries, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from bertscope.errors import invalid_argument
from bertscope.values import validation

__all__ = ["Retries"]

MOST_ATTEMPTS = 5
"""The most attempts that gRPC makes."""


@dataclass(frozen=True)
class Retries:
    """Read-only calls are retried while the server can't be reached (UNAVAILABLE). An overloaded server is called again only
    within a list of texts that takes several calls, after the delay that it requests.

    >>> Retries(attempts=2, first_seconds=0.5).attempts
    2
    """

    attempts: int = 4
    """Number of attempts in all, 1 (no retry) to 5."""
    first_seconds: float = 0.1
    """Wait before the second attempt, over 0; each further one waits three times as long. gRPC varies it a little."""
    most_seconds: float = 2.0
    """Longest wait between two attempts, over 0."""

    def __post_init__(self) -> None:
        attempts = validation.uint32("retries.attempts", self.attempts)
        if not 1 <= attempts <= MOST_ATTEMPTS:
            raise invalid_argument("retries.attempts", f"must be 1 (never again) to {MOST_ATTEMPTS}, not {attempts}")
        for name in ("first_seconds", "most_seconds"):
            seconds = validation.finite_number(f"retries.{name}", getattr(self, name))
            if seconds <= 0:
                raise invalid_argument(f"retries.{name}", f"must be over 0, not {seconds:g}")

    @classmethod
    def of(cls, value: Retries | int) -> Retries:
        """Returns the policy itself, or the policy of a number of retries after the first attempt: 0 to 4."""
        if isinstance(value, Retries):
            return value
        further = validation.uint32("retries", value)
        if further >= MOST_ATTEMPTS:
            raise invalid_argument("retries", f"must be 0 (never again) to {MOST_ATTEMPTS - 1}, or a Retries, not {further}")
        return cls(attempts=further + 1)
