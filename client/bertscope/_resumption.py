"""Goes on with an ExtractAttention stream that broke off: what is missing is asked for anew. Pure: messages in, maps out.

gRPC itself asks again until a stream has brought its first message, and never after it. Texts do not depend on each other, so
those that came stay good when the server that sent them is gone.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import grpc

from bertscope._assembly import AttentionAssembler
from bertscope.errors import BertscopeError, FailedPrecondition, Unavailable
from bertscope.results import AttentionMaps
from bertscope.v1.attention_pb2 import ExtractAttentionRequest, ExtractAttentionResponse

MAX_BREAKS = 3
"""Streams that may break off one after another before a text is complete: a text that ends its server must not end them all."""


class Extraction:
    """The state of one `extract_attention`, over as many streams as it takes."""

    def __init__(self, request: ExtractAttentionRequest, seconds: float | None) -> None:
        """`seconds` is what all streams together may take; None means no limit."""
        self.request = request
        """What is to be asked now."""
        self.timeout = seconds
        """Seconds that this may take."""
        self.complete = False
        self._whole = request
        self._missing = list(range(len(request.inputs)))
        self._end = None if seconds is None else monotonic() + seconds
        self._breaks = 0
        self._weights = ""
        self._begin()

    def add(self, message: ExtractAttentionResponse) -> AttentionMaps | None:
        """Takes in one message; gives the maps of the text that it completes.

        Raises InvalidReply, and FailedPrecondition where another model goes on in the place of the first one.
        """
        self._begun = True
        maps = self._assembler.add(message)
        if maps is None:
            return None
        weights = maps.provenance.weights_digest
        if self._weights and weights != self._weights:
            raise FailedPrecondition(
                "the stream broke off, and the model that goes on has other weights; ask for all texts again",
                metadata={"before": self._weights, "now": weights},
            )
        self._weights = weights
        self._breaks = 0
        number = self._asked[maps.input_index]
        self._missing.remove(number)
        return replace(maps, input_index=number)

    def end(self) -> None:
        """The stream came to its end. Raises InvalidReply if it was too early."""
        self._assembler.end()
        self.complete = True

    def resume(self, error: BertscopeError) -> None:
        """The stream failed: prepare to ask for what is missing. Raises the error where that does not help."""
        self._breaks += 1
        if not self._begun or self._breaks > MAX_BREAKS or not _broke_off(error):
            raise error
        if not self._missing:
            self.complete = True
            return
        self.request = ExtractAttentionRequest()
        self.request.CopyFrom(self._whole)
        del self.request.inputs[:]
        self.request.inputs.extend(self._whole.inputs[number] for number in self._missing)
        self.timeout = None if self._end is None else self._end - monotonic()
        self._begin()

    def _begin(self) -> None:
        self._asked = tuple(self._missing)
        self._assembler = AttentionAssembler(self.request)
        self._begun = False


def _broke_off(error: BertscopeError) -> bool:
    """Whether a stream fails so when its server goes. Proxies reset it then, which gRPC calls INTERNAL; a server of ours that
    says INTERNAL gives a reason."""
    return isinstance(error, Unavailable) or (error.code is grpc.StatusCode.INTERNAL and not error.reason)
