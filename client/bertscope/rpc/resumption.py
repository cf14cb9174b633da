"""Resumes a stream of tensors that broke off: requests the missing texts again. Pure: messages in, results out.

gRPC itself retries until a stream has brought its first message, and never after it. Texts do not depend on each other, so
received texts stay valid when the server that sent them is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Generic

import grpc

from bertscope.errors import CLIENT_SIDE, BertscopeError, FailedPrecondition, Unavailable
from bertscope.rpc.assembly import Assembler, ExtractRequest, ExtractResponse, Tensors
from bertscope.rpc.logs import logger
from bertscope.rpc.splitting import Part, Parts, located

Build = Callable[[Sequence[Any]], ExtractRequest]
"""Makes the request about some items."""

MAX_BREAKS = 3
"""The most consecutive streams that may break off before a text is complete: a text that crashes its server must not crash all
of them."""


class Extraction(Generic[Tensors]):
    """The state of one call, over as many streams as needed."""

    def __init__(
        self, build: Build, items: Sequence[Any], assembler: Callable[[Any], Assembler[Any, Tensors]], seconds: float | None
    ) -> None:
        """`build` makes the request about some items, `assembler` begins a stream. `seconds` is the time limit of all streams
        together; None means no limit."""
        self.request = build(items)
        """The request to send now."""
        self.timeout = seconds
        """The remaining seconds."""
        self.complete = False
        self._build, self._items, self._start = build, items, assembler
        self._missing = list(range(len(items)))
        self._end = None if seconds is None else monotonic() + seconds
        self._breaks = 0
        self._weights = ""
        self._begin()

    def add(self, message: ExtractResponse) -> Tensors | None:
        """Processes one message and returns the result of the text that it completes, if any.

        Raises InvalidReply, and FailedPrecondition if another model replaces the first one.
        """
        self.begun = True
        found = self._assembler.add(message)
        if found is None:
            return None
        weights = found.provenance.weights_digest
        if self._weights and weights != self._weights:
            raise FailedPrecondition(
                "the stream broke off, and the model that goes on has other weights; ask for all texts again",
                reason=CLIENT_SIDE,
                metadata={"before": self._weights, "now": weights},
            )
        self._weights = weights
        self._breaks = 0
        number = self.asked[found.input_index]
        self._missing.remove(number)
        return replace(found, input_index=number)

    def end(self) -> None:
        """Ends the stream. Raises InvalidReply if it was too early."""
        self._assembler.end()
        self.complete = True

    def resume(self, error: BertscopeError) -> None:
        """Prepares the request for the missing texts after a failure. Raises the error if that does not help."""
        self._breaks += 1
        if not self.begun or self._breaks > MAX_BREAKS or not _broke_off(error):
            raise error
        if not self._missing:
            self.complete = True
            return
        logger.info("a stream broke off (%s) and is resumed: %d texts are missing", error.code.name, len(self._missing))
        self.request = self._build([self._items[number] for number in self._missing])
        self.timeout = None if self._end is None else _seconds_until(self._end)
        self._begin()

    def _begin(self) -> None:
        self.asked = tuple(self._missing)
        """The texts that the current stream was asked for, by their index in the whole request."""
        self._assembler = self._start(self.request)
        self.begun = False
        """True if the current stream has brought a message."""


class Extractions(Generic[Tensors]):
    """The state of one method of any number of texts: an `Extraction` for each part, one after the other."""

    def __init__(
        self,
        build: Build,
        assembler: Callable[[Any], Assembler[Any, Tensors]],
        parts: Parts[Any],
        seconds: float | None,
        attempts: int,
    ) -> None:
        """`build` makes the request about some items, `assembler` begins a stream. `seconds` is the time limit of all of them
        together; None means no limit."""
        self._build, self._start, self._parts, self._attempts = build, assembler, parts, attempts
        self._seconds, self._end = seconds, None if seconds is None else monotonic() + seconds
        self._part: Part[Any] | None = None
        self._now = Extraction(build, (), assembler, None)

    def next(self) -> Extraction[Tensors] | None:
        """Returns the state of the next stream, of its `request` within its `timeout`; None at the end."""
        if self._part is None or self._now.complete:
            self._part = self._parts.take()
            if self._part is None:
                self._parts.end()
                return None
            seconds = self._seconds if self._end is None or self._part.start == 0 else _seconds_until(self._end)
            self._now = Extraction(self._build, self._part.items, self._start, seconds)
        return self._now

    def add(self, message: ExtractResponse) -> Tensors | None:
        """Processes one message and returns the result of the text that it completes, if any."""
        found = self._now.add(message)
        if found is None or self._part is None:
            return None
        number = self._part.start + found.input_index
        self._parts.check_weights(number, found.provenance.weights_digest)
        return replace(found, input_index=number)

    def failed(self, error: BertscopeError) -> float:
        """Returns the seconds after which to request the missing texts. Raises the error if that does not help."""
        part = self._part
        if part is None or self._now.begun:
            start = 0 if part is None else part.start
            numbers = [start + number for number in self._now.asked]
            try:
                self._now.resume(error)
            except BertscopeError as final:
                raise located(final, numbers) from None
            return 0.0
        if not self._now.asked:
            raise error  # No text was asked about: there is none to leave out.
        first = self._now.asked[0]  # The texts before it came before a stream broke off.
        part = Part(part.start + first, part.items[first:], part.failures)
        rest, wait = self._parts.without_rejected(part, error), 0.0
        if rest is None:
            rest, wait = self._parts.refused(part, error, self._attempts)
        self._parts.put_back(rest)
        self._part = None
        return wait


def _seconds_until(end: float) -> float:
    """Returns the seconds that are left, at least a thousandth: a caller's own of 0 would be a wrong argument."""
    return max(0.001, end - monotonic())


def _broke_off(error: BertscopeError) -> bool:
    """Returns whether an error means that the stream's server is gone. Proxies reset the stream then, which gRPC calls
    INTERNAL; our servers give a reason with INTERNAL."""
    return isinstance(error, Unavailable) or (error.code is grpc.StatusCode.INTERNAL and not error.reason)
