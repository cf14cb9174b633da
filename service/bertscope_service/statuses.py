"""The table from what can go wrong to what a caller sees, read once, by the interceptor."""

from __future__ import annotations

import string
from itertools import accumulate
from urllib.parse import quote

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from bertscope_service import errors

DOMAIN = "bertscope"
SAFE = (string.punctuation + " ").replace("%", "")
"""What gRPC writes into a header as it is, beside letters and digits."""
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
MAX_MESSAGE_BYTES = 1000
MAX_VALUE_BYTES = 200
"""A status travels in HTTP/2 headers, percent-encoded and in base64; clients refuse more than 8 KiB of them."""


def to_status(error: Exception, request_id: str) -> status_pb2.Status:
    """The google.rpc.Status of an error. Anything but a ServiceError is INTERNAL, with the id to find it in the log."""
    if not isinstance(error, errors.ServiceError):
        message = f"internal error {request_id}; the server's log has the details under this id"
        return _status(grpc.StatusCode.INTERNAL, message, _info("INTERNAL", {"request_id": request_id}))
    details: list[Message] = [_info(error.reason, error.metadata)]
    message = _shorten(error.message)
    if isinstance(error, errors.InvalidArgument):
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=message, reason=error.reason)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, errors.Overloaded):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(round(error.retry_after * 1000))
        details.append(retry)
    return _status(CODES[type(error)], message, *details)


def _info(reason: str, metadata: dict[str, str]) -> error_details_pb2.ErrorInfo:
    shortened = {name: _shorten(value, MAX_VALUE_BYTES) for name, value in metadata.items()}
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=shortened)


def _shorten(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """The text, cut if it were longer than `limit` bytes in a header; what UTF-8 can't write is escaped."""
    text = text[: limit + 1].encode("utf-8", "backslashreplace").decode()
    if len(quote(text, safe=SAFE)) <= limit:
        return text
    sizes = accumulate(len(quote(character, safe=SAFE)) for character in text)
    return f"{text[: sum(size <= limit for size in sizes)]}..."


def _status(code: grpc.StatusCode, message: str, *details: Message) -> status_pb2.Status:
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status
