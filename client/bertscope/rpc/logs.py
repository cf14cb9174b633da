"""Logs the client's calls, under the logger "bertscope": never a text, a token or an answer."""

from __future__ import annotations

import logging
from typing import TypeVar

from bertscope.errors import BertscopeError

Error = TypeVar("Error", bound=BertscopeError)

logger = logging.getLogger("bertscope")
logger.addHandler(logging.NullHandler())  # Silent unless the program that uses the client adds a handler.


def failed(error: Error) -> Error:
    """Logs a call that failed, after all of gRPC's attempts, and returns the error."""
    logger.debug(
        "a call failed: %s, reason %s, request %s", error.code.name, error.reason or "none", error.request_id or "none"
    )
    return error
