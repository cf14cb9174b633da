"""Maps errors to the statuses that callers see; the interceptor uses it once per failed call."""

from __future__ import annotations

import asyncio
import string
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import quote

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from bertscope_service import errors
from bertscope_service.observability.request_ids import REQUEST_ID

DOMAIN = "bertscope"
SAFE = (string.punctuation + " ").replace("%", "")
"""Characters that gRPC writes into a header as they are, beside letters and digits."""
CODES: dict[type[errors.ServiceError], grpc.StatusCode] = {
    errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Unsupported: grpc.StatusCode.UNIMPLEMENTED,
    errors.Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
}
STATUSES = {code.value[0]: code for code in grpc.StatusCode}
MEMORY_RETRY_SECONDS = 5.0
MAX_MESSAGE_BYTES = 1000
MAX_VALUE_BYTES = 200
"""The most bytes of a metadata value. A status travels in HTTP/2 headers, percent-encoded and in base64; clients reject more
than 8 KiB of them."""

KEPT_REFUSALS = 256
"""The number of refusals whose statuses are kept: an overloaded server refuses many calls for the same reason."""

DETAILS = "grpc-status-details-bin"
"""The trailing metadata that carry a google.rpc.Status; see https://grpc.io/docs/guides/error/."""

Metadata = tuple[tuple[str, str | bytes], ...]


WITHOUT_STATUS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""Errors that end a call, or the process, with nobody left to tell. All others become a status, also those that are no
Exception, such as a panic of Rust code: grpc itself sends none for them, and the caller would wait for ever."""


class SentStatus(NamedTuple):
    """A status in the parts that gRPC sends."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: Metadata


def without_memory(error: BaseException) -> BaseException:
    """Returns the error itself, or the error for callers if the process had no memory for an allocation or another thread."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == "can't start new thread"):
        message = "the server has not enough memory for this now; try again later, or ask for less at a time"
        return errors.Overloaded(message, "SERVER_MEMORY", MEMORY_RETRY_SECONDS)
    return error


def without_float64(error: BaseException) -> BaseException:
    """Returns the error itself, or the error for callers if the device has no float64, which sums over many numbers take."""
    if isinstance(error, TypeError) and "MPS" in str(error) and "float64" in str(error):
        message = "this takes 64-bit numbers, which mps does not have; load the model with device cpu"
        return errors.Unsupported(message, "DEVICE_UNSUPPORTED", device="mps")
    return error


def sent_status(error: BaseException, request_id: str) -> SentStatus:
    """Returns the status of an error, with a google.rpc.Status and the request id, if it has one, in its metadata."""
    if isinstance(error, errors.Overloaded):
        wait = round(error.retry_after * 1000)
        sent = _overloaded(error.message, error.reason, wait, tuple(error.metadata.items()))
    else:
        sent = _sent(to_status(error, request_id))
    if not request_id:
        return sent
    return SentStatus(sent.code, sent.details, (*sent.trailing_metadata, (REQUEST_ID, request_id)))


@lru_cache(KEPT_REFUSALS)
def _overloaded(message: str, reason: str, retry_ms: int, metadata: tuple[tuple[str, str], ...]) -> SentStatus:
    return _sent(to_status(errors.Overloaded(message, reason, retry_ms / 1000, **dict(metadata)), ""))


def _sent(status: status_pb2.Status) -> SentStatus:
    return SentStatus(STATUSES[status.code], status.message, ((DETAILS, status.SerializeToString()),))


def to_status(error: BaseException, request_id: str) -> status_pb2.Status:
    """Returns the google.rpc.Status of an error. Anything but a ServiceError is INTERNAL, with the id to find it in the log."""
    if not isinstance(error, errors.ServiceError):
        message = f"internal error {request_id}; the server's log has the details under this id"
        return _pack(grpc.StatusCode.INTERNAL, message, _info("INTERNAL", {"request_id": request_id}))
    details: list[Message] = [_info(error.reason, error.metadata)]
    message = _shorten(error.message)
    if isinstance(error, errors.InvalidArgument):
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=message, reason=error.reason)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, errors.Overloaded):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(round(error.retry_after * 1000))
        details.append(retry)
    return _pack(CODES[type(error)], message, *details)


def _info(reason: str, metadata: dict[str, str]) -> error_details_pb2.ErrorInfo:
    shortened = {name: _shorten(value, MAX_VALUE_BYTES) for name, value in metadata.items()}
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=shortened)


def _shorten(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """Returns the text, cut to `limit` bytes in a header; characters that UTF-8 can't encode are escaped."""
    text = text[: limit + 1].encode("utf-8", "backslashreplace").decode()
    if len(quote(text, safe=SAFE)) <= limit:
        return text
    sizes = accumulate(len(quote(character, safe=SAFE)) for character in text)
    return f"{text[: sum(size <= limit for size in sizes)]}..."


def _pack(code: grpc.StatusCode, message: str, *details: Message) -> status_pb2.Status:
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status
