"""Each error has its status, with details for machines and nothing that nobody should see."""

from typing import Any

import grpc
import pytest
from bertscope_service import errors
from bertscope_service.rpc.status import CODES, MAX_MESSAGE_BYTES, MAX_VALUE_BYTES, to_status, without_memory
from google.rpc import error_details_pb2, status_pb2

TABLE: list[tuple[errors.ServiceError, grpc.StatusCode]] = [
    (errors.InvalidArgument("texts[3]", "write some text", "EMPTY_TEXT", limit=3), grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotFound("no such model", "MODEL_NOT_FOUND", model="models/x"), grpc.StatusCode.NOT_FOUND),
    (errors.AlreadyExists("taken", "MODEL_EXISTS"), grpc.StatusCode.ALREADY_EXISTS),
    (errors.FailedPrecondition("loading", "MODEL_NOT_READY"), grpc.StatusCode.FAILED_PRECONDITION),
    (errors.Unsupported("no head", "NO_MASKED_LM_HEAD"), grpc.StatusCode.UNIMPLEMENTED),
    (errors.Overloaded("full", "QUEUE_FULL", 1.25), grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.Unauthenticated("who?", "TOKEN_MISSING"), grpc.StatusCode.UNAUTHENTICATED),
    (errors.PermissionDenied("not there", "SOURCE_NOT_ALLOWED"), grpc.StatusCode.PERMISSION_DENIED),
    (errors.Unavailable("stopping", "DRAINING"), grpc.StatusCode.UNAVAILABLE),
    (errors.DeadlineExceeded("late", "DEADLINE_IN_QUEUE"), grpc.StatusCode.DEADLINE_EXCEEDED),
]


def details(status: status_pb2.Status) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for packed in status.details:
        kind = packed.TypeName().removeprefix("google.rpc.")
        found[kind] = getattr(error_details_pb2, kind)()
        assert packed.Unpack(found[kind])
    assert len(found) == len(status.details)
    return found


def test_every_class_of_error_is_in_the_table() -> None:
    assert set(CODES) == set(errors.ServiceError.__subclasses__()) == {type(error) for error, _ in TABLE}


@pytest.mark.parametrize(("error", "code"), TABLE, ids=lambda value: type(value).__name__)
def test_an_error_becomes_its_status_with_one_error_info(error: errors.ServiceError, code: grpc.StatusCode) -> None:
    status = to_status(error, "request-1")
    assert status.code == code.value[0]
    assert status.message == error.message
    info = details(status)["ErrorInfo"]
    assert (info.domain, info.reason, dict(info.metadata)) == ("bertscope", error.reason, error.metadata)


def test_a_bad_argument_names_its_field_and_an_overload_when_to_try_again() -> None:
    found = details(to_status(TABLE[0][0], "")) | details(to_status(TABLE[5][0], ""))
    (violation,) = found["BadRequest"].field_violations
    assert (violation.field, violation.description, violation.reason) == ("texts[3]", "write some text", "EMPTY_TEXT")
    assert found["RetryInfo"].retry_delay.ToMilliseconds() == 1250
    assert set(found) == {"ErrorInfo", "BadRequest", "RetryInfo"}


def test_anything_else_is_internal_with_an_id_and_without_its_text() -> None:
    status = to_status(KeyError("a secret"), "request-1")
    assert status.code == grpc.StatusCode.INTERNAL.value[0]
    assert "request-1" in status.message
    info = details(status)["ErrorInfo"]
    assert (info.domain, info.reason, dict(info.metadata)) == ("bertscope", "INTERNAL", {"request_id": "request-1"})
    assert b"secret" not in status.SerializeToString()
    assert b"Error" not in status.SerializeToString().replace(b"ErrorInfo", b"")


def test_long_messages_and_values_are_cut_and_say_so() -> None:
    status = to_status(errors.InvalidArgument("f", "a" * 50_000, "R", model="m" * 9000), "")
    assert len(status.message) <= MAX_MESSAGE_BYTES + len("...")
    assert status.message.endswith("a...")
    info = details(status)["ErrorInfo"]
    assert len(info.metadata["model"]) <= MAX_VALUE_BYTES + len("...")
    assert info.metadata["model"].endswith("m...")
    assert len(status.SerializeToString()) < 8192


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_process_without_memory_refuses(error: Exception) -> None:
    refusal = without_memory(error)
    assert isinstance(refusal, errors.Overloaded)
    assert (refusal.reason, refusal.retry_after > 0) == ("SERVER_MEMORY", True)
    assert to_status(refusal, "id").code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
