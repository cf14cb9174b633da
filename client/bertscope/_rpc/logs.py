"""Logs the client's calls, under the logger "bertscope": never a text, a token or an answer."""

from __future__ import annotations

import logging
from typing import TypeVar

from bertscope._rpc.retries import Retries
from bertscope._rpc.targets import Target
from bertscope.errors import BertscopeError

Error = TypeVar("Error", bound=BertscopeError)

logger = logging.getLogger("bertscope")
logger.addHandler(logging.NullHandler())  # Silent unless the program that uses the client adds a handler.


def chosen(target: Target, retries: Retries) -> None:
    """Logs that a client was made."""
    how = "TLS" if target.encrypted else "clear text"
    logger.info("calls %s over %s; %d attempts of what only reads", target.name, how, retries.attempts)


def failed(error: Error) -> Error:
    """Logs a call that failed, after all of gRPC's attempts, and returns the error."""
    logger.debug(
        "a call failed: %s, reason %s, request %s", error.code.name, error.reason or "none", error.request_id or "none"
    )
    return error


def resumed(error: BertscopeError, missing: int) -> None:
    """Logs that a stream broke off and is resumed."""
    logger.info("a stream broke off (%s) and is resumed: %d texts are missing", error.code.name, missing)


def split(size: int, parts: int, reason: str) -> None:
    """Logs that a call was too large for the server."""
    logger.info("a call of %d texts is too large for the server (%s); they go in calls of %d at most", size, reason, parts)


def waits(error: BertscopeError, seconds: float, failures: int) -> None:
    """Logs that a call is retried after a delay."""
    logger.info("the server is overloaded (%s); failure %d, tries again in %.2g s", error.reason, failures, seconds)
