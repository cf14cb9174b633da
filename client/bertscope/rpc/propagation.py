"""Propagates the caller's trace to the server, in headers that name the span of a call."""

from collections.abc import Callable
from typing import Any, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str], ...]
Propagate: TypeAlias = Callable[[dict[str, Any]], object]
"""Writes the current trace context into an empty dict of headers; `opentelemetry.propagate.inject` is one."""


def propagating(metadata: Callable[[], Metadata | None], propagate: Propagate | None) -> Callable[[], Metadata | None]:
    """Returns a function that gives each call `metadata` and the trace context at that time."""
    if propagate is None:
        return metadata

    def with_context() -> Metadata:
        headers: dict[str, str] = {}
        propagate(headers)
        return (*(metadata() or ()), *headers.items())

    return with_context
