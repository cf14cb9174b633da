"""How the trace of a caller goes on in the server: headers that say which span a call belongs to."""

from collections.abc import Callable
from typing import Any, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str], ...]
Propagate: TypeAlias = Callable[[dict[str, Any]], object]
"""Writes the current trace context into an empty dict of headers; `opentelemetry.propagate.inject` is one."""


def propagating(metadata: Callable[[], Metadata | None], propagate: Propagate | None) -> Callable[[], Metadata | None]:
    """What goes with each call: `metadata`, and the context of the moment in which it is made."""
    if propagate is None:
        return metadata

    def with_context() -> Metadata:
        headers: dict[str, str] = {}
        propagate(headers)
        return (*(metadata() or ()), *headers.items())

    return with_context
