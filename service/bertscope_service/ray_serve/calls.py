"""Defines the messages between the ingress and a model's replicas, and from both to Ray's proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import grpc

from bertscope_service.rpc.status import sent_status

FORWARDED = frozenset({"traceparent", "tracestate"})
"""The callers' metadata that replicas get, beside the request id. Tokens are not forwarded."""

Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A call as a replica gets it."""

    path: str
    """ "/package.Service/Method"."""

    request: bytes
    """The serialised request."""

    client: str
    """The client of the call, by which the replica is shared."""

    metadata: Metadata
    """The request id, and the metadata in `FORWARDED`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status of a failed call. It is returned, not raised: of an exception, Ray keeps only code and text."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: Metadata

    @classmethod
    def of(cls, error: Exception, request_id: str) -> Self:
        """Returns the refusal for an error, as callers see it; see rpc/status.py."""
        return cls(*sent_status(error, request_id))


@dataclass(frozen=True, slots=True)
class Serialised:
    """A reply in the form that Ray takes: Ray serialises it as it would a protobuf message."""

    payload: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        return self.payload


NOTHING = Serialised(b"")
"""Accompanies a status that is not OK. Ray's proxy would send it as a message on a stream; ours drops it."""
