"""What travels between the ingress and a model's replicas, and from both to Ray's proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import grpc
from grpc_status import rpc_status

from bertscope_service.request_ids import REQUEST_ID
from bertscope_service.statuses import to_status

FORWARDED = frozenset({"traceparent", "tracestate"})
"""Metadata of callers that replicas hear of, beside the request id. No token is among it."""

Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A call as a replica gets it."""

    path: str
    """ "/package.Service/Method"."""

    request: bytes
    """The request, serialised."""

    client: str
    """Whose call it is, for an even share of the replica."""

    metadata: Metadata
    """The request id, and what `FORWARDED` names."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a call ends that failed. It is returned where others would raise: of an exception, Ray keeps only code and text."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: Metadata

    @classmethod
    def of(cls, error: Exception, request_id: str) -> Self:
        """What callers are told of an error; see statuses.py."""
        status = rpc_status.to_status(to_status(error, request_id))
        return cls(status.code, status.details, (*status.trailing_metadata, (REQUEST_ID, request_id)))


@dataclass(frozen=True, slots=True)
class Serialised:
    """A reply in the form in which Ray takes it: Ray asks it for its bytes, as it asks a message of protobuf."""

    payload: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        return self.payload


NOTHING = Serialised(b"")
"""Goes with a status that is not OK. Ray's proxy would send it as a message on a stream; ours drops it."""
