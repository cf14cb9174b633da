"""Names the method of a command's numbers in the documents that it prints and writes."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

running: ContextVar[tuple[str, Sequence[str]] | None] = ContextVar("running", default=None)
"""The command that runs, and its options that are given."""


def with_method(document: Any) -> Any:
    """Returns the document with what the command that runs computes and the papers that define it, under "method"; as it is for
    a command that computes no number."""
    command = running.get()
    if command is None or not isinstance(document, Mapping):
        return document
    from bertscope_workbench.references import method_of  # Most of its time is that of grpc, which --help does without.

    method = method_of(*command)
    return document if method is None else {**document, "method": method.document()}
