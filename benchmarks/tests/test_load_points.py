"""What a record of calls is summed up to, and how calls arrive."""

import grpc
import numpy as np
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from benchmarks.lib.fillings import agree
from benchmarks.load.point import completed, summarise
from benchmarks.load.traffic import NOT_SENT, ClosedLoop, Record, Traffic

OK = 0
LATE = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
REFUSED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
INTERNAL = grpc.StatusCode.INTERNAL.value[0]
DEADLINE = 1.0


def refusal(reason: str, *, delay: bool = True) -> bytes:
    """A google.rpc.Status as the server sends it."""
    details = [error_details_pb2.ErrorInfo(reason=reason), *([error_details_pb2.RetryInfo()] if delay else [])]
    status = status_pb2.Status()
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status.SerializeToString()


def traffic(clients: int = 2) -> Traffic:
    """Two seconds that are counted, from 1 to 3."""
    return Traffic(target="", server=0, proxy=None, method="", requests=[b""], clients=clients, begin=1.0, end=3.0)


def record(*calls: tuple[float, float, int, int, bytes]) -> Record:
    """Calls as (arrived, seconds until done, client, code, details); each was sent 10 ms late, its request is number 0."""
    arrived, taken, clients, codes, details = (list(column) for column in zip(*calls, strict=True))
    sent = np.array([at + 0.01 if code != NOT_SENT else np.nan for at, code in zip(arrived, codes, strict=True)])
    done = np.array(arrived) + np.where(np.isnan(sent), np.nan, taken)
    return Record(
        arrived=np.array(arrived),
        sent=sent,
        done=done,
        clients=np.array(clients),
        requests=np.zeros(len(calls), dtype=np.int64),
        codes=np.array(codes),
        details=details,
        resident_bytes=[300, 500, 400],
        server_cores=1.2,
        proxy_cores=0.0,
        generator_cores=0.3,
    )


def right(request: int, reply: bytes) -> bool:
    return reply == b"right"


def test_every_outcome_of_a_call_is_counted_where_it_belongs() -> None:
    found = summarise(
        record(
            (0.9, 0.1, 0, OK, b"right"),  # arrived before the counted time
            (1.0, 0.1, 0, OK, b"right"),
            (1.5, 0.3, 1, OK, b"right"),
            (2.0, 0.2, 0, OK, b"wrong"),
            (2.1, 1.1, 1, OK, b"right"),  # after its deadline
            (2.2, 1.0, 1, LATE, b""),
            (2.3, 0.02, 0, REFUSED, refusal("QUEUE_FULL")),
            (2.4, 0.04, 0, REFUSED, refusal("CLIENT_LIMIT", delay=False)),
            (2.5, 0.1, 0, INTERNAL, b""),
            (2.9, 0.0, 1, NOT_SENT, b""),
            (3.0, 0.1, 0, OK, b"right"),  # after it
        ),
        traffic(),
        DEADLINE,
        right,
    )
    assert found.offered == 9 / 2
    assert found.goodput == 2 / 2
    assert found.late == 2 / 2
    assert found.refused == 2 / 2
    assert found.not_sent == 1 / 2
    assert found.wrong == 1
    assert found.failed == {"INTERNAL": 1}
    assert found.refusals == {"QUEUE_FULL": 1, "no RetryInfo": 1}
    assert found.fairness == pytest.approx((1 / 5, 1 / 4))
    assert found.latency["p50"] == pytest.approx(0.2)
    assert found.refusal_latency == pytest.approx(np.percentile([0.02, 0.04], 95))
    assert found.lateness == pytest.approx(0.01)
    assert (found.resident_bytes, found.peak_bytes) == (400, 500)


def test_latency_counts_from_arrival_however_late_the_call_was_sent() -> None:
    late = record((1.0, 0.5, 0, OK, b"right"))
    late.sent[0] = 1.45
    found = summarise(late, traffic(), DEADLINE, right)
    assert found.latency == pytest.approx({"p50": 0.5, "p95": 0.5, "p99": 0.5})
    assert found.lateness == pytest.approx(0.45)


def test_a_closed_loop_counts_right_answers_by_when_they_came() -> None:
    loop = ClosedLoop(
        target="", server=0, proxy=None, method="", requests=[b""], clients=1, begin=1.0, end=3.0, callers=2, deadline=30.0
    )
    came = record(
        (0.5, 0.6, 0, OK, b"right"),
        (1.1, 0.5, 0, OK, b"right"),
        (1.6, 0.5, 0, OK, b"wrong"),
        (2.1, 0.5, 0, REFUSED, refusal("QUEUE_FULL")),
        (2.6, 0.5, 0, OK, b"right"),  # after the end
    )
    assert completed(came, loop, right) == 2 / 2


TRUTH = [{(1,): -0.5, (2,): -1.0, (3,): -2.0001, (4,): -2.0002, (5, 6): -3.0}]


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ({(1,): -0.5004, (2,): -0.9996, (4,): -2.0}, True),  # the third and the fourth are equally likely
        ({(1,): -0.5, (2,): -1.0, (5, 6): -3.0}, False),  # true, but not among the likeliest
        ({(1,): -0.5, (2,): -1.1, (3,): -2.0}, False),
        ({(2,): -0.5, (1,): -1.0, (3,): -2.0}, False),
        ({}, False),
    ],
)
def test_fillings_agree_if_they_are_the_likeliest_up_to_rounding(found: dict[tuple[int, ...], float], same: bool) -> None:
    assert agree([found], TRUTH) is same
    assert not agree([found, found], TRUTH)
