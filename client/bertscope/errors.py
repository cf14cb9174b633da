"""Defines the errors of calls as one tree; every exception that a client raises about a call is in it.

* BertscopeError
    + InvalidArgument       also a ValueError: the server rejected a field, or it could not be encoded here
    + NotFound              no such model
    + AlreadyExists         the model id is in use
    + FailedPrecondition    the model is not ready, or its source cannot be loaded
    + ResourceExhausted     the queue is full: try again after `retry_after` seconds
    + Unavailable           no server there, or it is shutting down
    + Unimplemented         this model or this server cannot do that
    + DeadlineExceeded      also a TimeoutError
    + Cancelled             the call was cancelled
    + PermissionDenied      the caller may not do that, or nobody may
    + Unauthenticated       the server does not know the caller: no token, or one that is not valid
    + InternalError         a bug in the server; `request_id` finds it in the server's log
        - InvalidReply      the reply breaks the contract: a stream ended early, bytes came twice
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb, walk_tb
from types import MappingProxyType
from typing import Any, ClassVar, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped, unused-ignore]
from grpc_status import rpc_status  # type: ignore[import-untyped, unused-ignore]

__all__ = [
    "AlreadyExists",
    "BertscopeError",
    "Cancelled",
    "DeadlineExceeded",
    "FailedPrecondition",
    "FieldViolation",
    "InternalError",
    "InvalidArgument",
    "InvalidReply",
    "NotFound",
    "PermissionDenied",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
]

CLIENT_SIDE = "CLIENT_SIDE"
"""The reason of errors made by the client: it rejected an argument, or replies are inconsistent."""

OURS = ("bertscope", "bertscope_workbench")
"""Packages whose frames say nothing to a caller."""

REQUEST_ID = "x-request-id"
"""Key of the metadata with the id under which a server logs a call."""


@dataclass(frozen=True)
class FieldViolation:
    """An error in one field of a request."""

    field: str
    """Path of the field in the request, for example "layers[0]"."""
    description: str
    """The error, and the right form."""


class BertscopeError(Exception):
    """A call failed. `str(error)` is one line that says what to do."""

    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN

    code: grpc.StatusCode
    """Status code of the call."""
    message: str
    """The server's message, as sent; for a timeout, an unreachable server and arguments rejected here, our own."""
    reason: str
    """Machine-readable cause, UPPER_SNAKE_CASE; empty when the server gave none (it was not reached, for example)."""
    metadata: Mapping[str, str]
    """Values that belong to the reason."""
    field_violations: tuple[FieldViolation, ...]
    """The fields of the request that are wrong."""
    retry_after: float | None
    """Seconds to wait before retrying; None if retrying does not help."""
    request_id: str | None
    """The server's id of the call, as in the server's log."""
    partial: Any = None
    """Result of what was answered before the error, of a method that adds up or collects the answers to many texts; None if
    there is none."""
    answered: int | None = None
    """Index, in the list given, of the first text without an answer, of such a method: ask for the rest from there, and merge
    both; None of others."""
    grpc_error: grpc.RpcError | None = None
    """gRPC's error, with its own traceback; None for an error that the client made."""

    def __init__(
        self,
        message: str = "",
        *,
        code: grpc.StatusCode | None = None,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        field_violations: Iterable[FieldViolation] = (),
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or self.status
        self.message = message
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.field_violations = tuple(field_violations)
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        message = self.message or self.code.name.replace("_", " ").lower()
        return " ".join(_with_fields(message, self.field_violations).split())

    def _render_traceback_(self) -> list[str]:
        return callers_lines(self)


class WrongArgument(TypeError):
    """A method was called with an argument that it does not have, or without one that it needs."""

    def _render_traceback_(self) -> list[str]:
        return callers_lines(self)


def callers_lines(error: BaseException) -> list[str]:
    """Returns the lines that a notebook shows of an error (IPython asks its `_render_traceback_`): the caller's frames and the
    message, without the frames inside of our packages."""
    modules = (str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__))
    frames = [frame for frame, module in zip(extract_tb(error.__traceback__), modules, strict=True) if module not in OURS]
    places = [f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}" for frame in frames[1:] or frames]
    return [*places, f"{type(error).__name__}: {error}"]


class InvalidArgument(BertscopeError, ValueError):
    """A field of the request is wrong; `field_violations` names it."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(BertscopeError):
    """There is no such model."""

    status = grpc.StatusCode.NOT_FOUND


class AlreadyExists(BertscopeError):
    """The model id is in use."""

    status = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(BertscopeError):
    """The model is not ready for the call, or its source cannot be loaded."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhausted(BertscopeError):
    """The server's queue is full, or a message is too large; `retry_after` is set in the first case."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(BertscopeError):
    """The server cannot be reached (no `reason`), or it reports that it cannot serve now (with a `reason`)."""

    status = grpc.StatusCode.UNAVAILABLE


class Unimplemented(BertscopeError):
    """The model or the server cannot do this."""

    status = grpc.StatusCode.UNIMPLEMENTED


class DeadlineExceeded(BertscopeError, TimeoutError):
    """The call's timeout ran out."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(BertscopeError):
    """The call was cancelled."""

    status = grpc.StatusCode.CANCELLED


class PermissionDenied(BertscopeError):
    """The caller's role does not allow this, or the server may not load or write there; a proxy may raise it, too."""

    status = grpc.StatusCode.PERMISSION_DENIED


class Unauthenticated(BertscopeError):
    """The caller sent no token, or one that the server (or a proxy before it) does not know."""

    status = grpc.StatusCode.UNAUTHENTICATED


class InternalError(BertscopeError):
    """The server has a bug; its log has the trace under `request_id`."""

    status = grpc.StatusCode.INTERNAL


class InvalidReply(InternalError):
    """The server's reply breaks the contract."""

    status = grpc.StatusCode.DATA_LOSS


STATUS_TO_ERROR: Mapping[grpc.StatusCode, type[BertscopeError]] = MappingProxyType(
    {kind.status: kind for kind in BertscopeError.__subclasses__()}
    | dict.fromkeys((grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS), InternalError)
    | dict.fromkeys((grpc.StatusCode.ABORTED, grpc.StatusCode.OUT_OF_RANGE), BertscopeError)
)


def from_call(call: grpc.RpcError, timeout: float | None = None, advice: Callable[[str], str] | None = None) -> BertscopeError:
    """Returns the exception for a call that failed, with the details in its trailing metadata.

    `timeout` is the call's timeout, in seconds; the message names it if it ran out. `advice` explains gRPC's messages about a
    server that can't be reached.
    """
    failed = cast(grpc.Call, call)  # An RpcError of a call is also a Call.
    code = failed.code()
    error = STATUS_TO_ERROR.get(code, InternalError)(failed.details() or "", code=code, request_id=_request_id(failed))
    error.grpc_error = call
    # Details that can't be parsed, or that contradict the call, must not hide the call's own failure.
    with suppress(ValueError, DecodeError):
        status = rpc_status.from_call(failed)
        _read_details(status, error)
    if isinstance(error, DeadlineExceeded) and timeout is not None and not error.reason:
        error.message = f"no answer within {timeout:g} s; allow more with timeout="
        error.args = (error.message,)
    if isinstance(error, Unavailable) and advice is not None and not error.reason:
        meaning = advice(error.message)
        if meaning:
            error.message = f"{meaning} (gRPC: {error.message})"
            error.args = (error.message,)
    return error


def invalid_argument(field: str, description: str) -> InvalidArgument:
    """Returns the exception for a field that cannot be encoded; no call is made."""
    return InvalidArgument(description, reason=CLIENT_SIDE, field_violations=[FieldViolation(field, description)])


def _request_id(call: grpc.Call) -> str | None:
    """Returns the id from the call's trailing metadata or, as a server may also send it, from its initial ones."""
    metadata: Any = (*(call.trailing_metadata() or ()), *(call.initial_metadata() or ()))
    return next((value for key, value in metadata if key == REQUEST_ID), None)


def _read_details(status: status_pb2.Status | None, error: BertscopeError) -> None:
    info = error_details_pb2.ErrorInfo()
    bad_request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details if status else ():
        if detail.Unpack(info):
            error.reason, error.metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad_request):
            error.field_violations = tuple(
                FieldViolation(violation.field, violation.description) for violation in bad_request.field_violations
            )
        elif detail.Unpack(retry):
            error.retry_after = retry.retry_delay.ToTimedelta().total_seconds()


def _with_fields(message: str, violations: tuple[FieldViolation, ...]) -> str:
    if len(violations) == 1:
        violation = violations[0]
        if violation.description in message:
            return message if message.startswith(violation.field) else f"{violation.field}: {message}"
    if not violations:
        return message
    return f"{message} ({'; '.join(f'{violation.field}: {violation.description}' for violation in violations)})"
