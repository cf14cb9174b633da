"""A failed call becomes one exception with all that the server said; one table decides which."""

import pickle
from typing import Any

import bertscope
import grpc
from bertscope import errors
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2


class FailedCall(grpc.RpcError):
    """A call that ended with a status, as grpc gives it."""

    def __init__(self, code: grpc.StatusCode, message: str | None, metadata: Any = (), initial: Any = ()) -> None:
        self._end = code, message, metadata
        self._initial = initial

    def initial_metadata(self) -> Any:
        return self._initial

    def code(self) -> grpc.StatusCode:
        return self._end[0]

    def details(self) -> str | None:
        return self._end[1]

    def trailing_metadata(self) -> Any:
        return self._end[2]


def failed(code: grpc.StatusCode, message: str, *details: Any, status_message: str | None = None) -> FailedCall:
    status = status_pb2.Status(code=code.value[0], message=message if status_message is None else status_message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    metadata = (("x-request-id", "r1"), ("grpc-status-details-bin", status.SerializeToString()))
    return FailedCall(code, message, metadata)


def broken_detail() -> FailedCall:
    detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff\xff")
    status = status_pb2.Status(code=grpc.StatusCode.NOT_FOUND.value[0], message="gone", details=[detail])
    metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    return FailedCall(grpc.StatusCode.NOT_FOUND, "gone", metadata)


def violation(field: str, description: str) -> Any:
    return error_details_pb2.BadRequest.FieldViolation(field=field, description=description)


def test_all_details_are_read():
    error = errors.from_call(
        failed(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "the queue is full",
            error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="bertscope", metadata={"tokens": "4096"}),
            error_details_pb2.RetryInfo(retry_delay=Duration(seconds=2, nanos=250_000_000)),
            error_details_pb2.BadRequest(field_violations=[violation("texts", "too many")]),
            error_details_pb2.DebugInfo(detail="unknown to this client"),
        )
    )
    assert (error.reason, error.metadata, error.retry_after) == ("QUEUE_FULL", {"tokens": "4096"}, 2.25)
    assert error.field_violations == (bertscope.FieldViolation("texts", "too many"),)


def test_each_code_has_its_exception_with_all_that_was_said():
    assert set(errors.STATUS_TO_ERROR) == set(grpc.StatusCode) - {grpc.StatusCode.OK}
    for code, expected in errors.STATUS_TO_ERROR.items():
        error = errors.from_call(failed(code, "message", error_details_pb2.ErrorInfo(reason="R")))
        for each in (error, pickle.loads(pickle.dumps(error))):
            assert (type(each), each.code, each.request_id, each.reason, str(each)) == (expected, code, "r1", "R", "message")
    assert issubclass(bertscope.InvalidArgument, ValueError)
    assert issubclass(bertscope.DeadlineExceeded, TimeoutError)


def test_the_request_id_may_come_at_the_end_or_at_the_beginning():
    begin = ("x-request-id", "begin")
    for trailing, initial, expected in (
        ((("x-request-id", "end"),), (begin,), "end"),
        (None, (("other", "x"), begin), "begin"),
        ((), None, None),
    ):
        assert errors.from_call(FailedCall(grpc.StatusCode.INTERNAL, "m", trailing, initial)).request_id == expected


def test_missing_or_broken_details_do_not_hide_the_error():
    gone = grpc.StatusCode.NOT_FOUND
    calls = [FailedCall(gone, "gone", metadata) for metadata in (None, (), (("grpc-status-details-bin", b"\xff\xff"),))]
    calls += [failed(gone, "gone", status_message="contradicts"), failed(gone, "gone", any_pb2.Any(value=b"packed twice"))]
    for call in (*calls, broken_detail()):
        error = errors.from_call(call)
        assert (type(error), str(error), error.reason, error.retry_after) == (bertscope.NotFound, "gone", "", None)


SAID = [
    ("layer 12 is out of range", [("layers[0]", "layer 12 is out of range")]),
    ("top_k: too large", [("top_k", "too large")]),
    ("bad request", [("top_k", "too large")]),
    ("bad request", [("a", "x"), ("b", "y")]),
    ("two\n  lines\r\n", []),
    ("", []),
]


def test_str_is_one_line_that_lists_the_fields(stored):
    calls = [
        failed(
            grpc.StatusCode.INVALID_ARGUMENT,
            message,
            error_details_pb2.BadRequest(field_violations=[violation(*each) for each in fields]),
        )
        for message, fields in SAID
    ]
    stored(lines=[str(errors.from_call(call)) for call in calls])
