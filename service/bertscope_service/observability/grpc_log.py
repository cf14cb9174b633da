"""Filters the log of gRPC's Python server for input that any client can send; each would log a trace."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Literal

Part = Literal["path", "metadata", "request"]
"""The part of a call that could not be read."""

CYGRPC = "grpc._cython.cygrpc"
"""The logger of gRPC's asynchronous server, and its module."""

BATCH_FAILED = 'Failed "execute_batch"'
"""The beginning of gRPC's error when it can't send a message because the call has ended: the caller cancelled it or
disconnected, or its deadline passed. gRPC ignores it only if it knew of the call's end before."""

METADATA_LINE = "Invalid encoding on %s"
"""This line quotes metadata, which may be a token."""


class GrpcLogFilter:
    """Drops lines of gRPC's log about unreadable paths and metadata, and about calls that had ended before their reply; reports
    the paths to its listeners. A filter for a logger."""

    def __init__(self) -> None:
        self.listeners: set[Callable[[Part], None]] = set()

    def install(self) -> None:
        """Filters gRPC's log from now on. Imports gRPC, for which `process.prepare` must have been called."""
        logging.getLogger(CYGRPC).addFilter(self)
        cygrpc: Any = import_module(CYGRPC)
        # gRPC prints some traces on standard error that it has just logged.
        cygrpc.traceback = SimpleNamespace(format_exception=traceback.format_exception, print_exc=lambda: None)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == METADATA_LINE:
            return False  # logged at each read of the metadata, and the call continues
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not _is_grpcs_own(error):
            return True
        if isinstance(error, UnicodeDecodeError):
            for listener in tuple(self.listeners):
                listener("path")
            return False
        return not str(error).startswith(BATCH_FAILED)


log_filter = GrpcLogFilter()
"""The filter of this process: gRPC does not say to which server a line belongs."""


def _is_grpcs_own(error: BaseException) -> bool:
    """Returns whether an error came from gRPC's compiled functions alone."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename.endswith(".pyx.pxi"):
        step = step.tb_next
    return step is None
