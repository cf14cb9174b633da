"""Summarises a record: goodput, rejections, latency, fairness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2
from numpy.typing import NDArray

from benchmarks.load.traffic import NOT_SENT, Record, Traffic

PERCENTILES = (50, 95, 99)
OK, LATE, REFUSED, UNHEARD = (
    code.value[0]
    for code in (
        grpc.StatusCode.OK,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    )
)
NAMES = {code.value[0]: code.name for code in grpc.StatusCode}

Check = Callable[[int, bytes], bool]
"""Returns whether a reply is right for the request of that number."""


@dataclass(frozen=True, slots=True)
class Point:
    """Traffic and its outcomes. Rates are calls per second of those that arrived in the counted time."""

    offered: float
    goodput: float
    """Calls answered rightly, within the deadline."""
    refused: float
    """RESOURCE_EXHAUSTED, or UNAVAILABLE: gRPC's status if a connection has more calls than the server takes on one."""
    late: float
    """DEADLINE_EXCEEDED, or an answer that came after the deadline."""
    not_sent: float
    """Calls that the generator held back, because too many were in flight."""
    wrong: int
    """Number of wrong answers."""
    failed: dict[str, int]
    """Every other outcome, by its code: there should be none."""
    refusals: dict[str, int]
    """Rejections by the server's reason; "no RetryInfo" if the retry delay is missing, "UNAVAILABLE" for gRPC's own."""
    latency: dict[str, float]
    """Seconds from a call's arrival to its answer, "p50" and so on, of all good ones."""
    refusal_latency: float
    """Seconds from arrival to a rejection, 95th percentile; NaN without any."""
    fairness: tuple[float, float]
    """The answered share of a client's own calls, of the worst and the best client; 0 to 1."""
    lateness: float
    """Delay of the generator's sends, seconds, 99th percentile; already in the latencies."""
    resident_bytes: int
    """The server's memory at the end of the counted time, and its peak in it."""
    peak_bytes: int
    server_cores: float
    proxy_cores: float
    generator_cores: float


def summarise(record: Record, traffic: Traffic, deadline: float, check: Check) -> Point:
    """Returns the counted part of a record, with every answer checked."""
    counted = np.flatnonzero((record.arrived >= traffic.begin) & (record.arrived < traffic.end))
    seconds = traffic.end - traffic.begin
    codes, latency = record.codes[counted], (record.done - record.arrived)[counted]
    right = np.array(
        [
            code == OK and check(int(record.requests[call]), record.details[call])
            for call, code in zip(counted, codes, strict=True)
        ],
        dtype=bool,
    )
    answered, refused, in_time = codes == OK, np.isin(codes, (REFUSED, UNHEARD)), latency <= deadline
    good = right & in_time
    late = (codes == LATE) | (answered & ~in_time)
    others = Counter(NAMES[code] for code in codes.tolist() if code not in (OK, LATE, REFUSED, UNHEARD, NOT_SENT))
    sent = codes != NOT_SENT
    lateness = (record.sent - record.arrived)[counted][sent]
    return Point(
        offered=len(counted) / seconds,
        goodput=_rate(good, seconds),
        refused=_rate(refused, seconds),
        late=_rate(late, seconds),
        not_sent=_rate(~sent, seconds),
        wrong=int(np.count_nonzero(answered & ~right)),
        failed=dict(others),
        refusals=dict(Counter(_reason(int(record.codes[call]), record.details[call]) for call in counted[refused])),
        latency={f"p{share}": percentile(latency[good], share) for share in PERCENTILES},
        refusal_latency=percentile(latency[refused], 95),
        fairness=fairness(record.clients[counted], good, traffic.clients),
        lateness=percentile(lateness, 99),
        resident_bytes=record.resident_bytes[-1],
        peak_bytes=max(record.resident_bytes),
        server_cores=record.server_cores,
        proxy_cores=record.proxy_cores,
        generator_cores=record.generator_cores,
    )


def completed(record: Record, traffic: Traffic, check: Check) -> float:
    """Returns right answers per second while calls were counted: the throughput of a closed loop."""
    counted = np.flatnonzero((record.done >= traffic.begin) & (record.done < traffic.end) & (record.codes == OK))
    right = sum(check(int(record.requests[call]), record.details[call]) for call in counted)
    return right / (traffic.end - traffic.begin)


def percentile(values: NDArray[np.float64], share: float) -> float:
    """Returns a percentile; NaN without values."""
    return float(np.percentile(values, share)) if len(values) else float("nan")


def fairness(clients: NDArray[np.int64], good: NDArray[np.bool_], count: int) -> tuple[float, float]:
    """Returns the least and the greatest answered share of its own calls of any of `count` clients; NaN without calls."""
    called = np.bincount(clients, minlength=count)
    answered = np.bincount(clients[good], minlength=count)
    shares = answered[called > 0] / called[called > 0]
    return (float(shares.min()), float(shares.max())) if len(shares) else (float("nan"), float("nan"))


def _rate(chosen: NDArray[np.bool_], seconds: float) -> float:
    return float(np.count_nonzero(chosen) / seconds)


def _reason(code: int, details: bytes) -> str:
    """Returns why a call was rejected, from its google.rpc.ErrorInfo."""
    if code == UNHEARD:
        return NAMES[code]
    packed = {kind.TypeName(): kind for kind in status_pb2.Status.FromString(details).details}
    info = error_details_pb2.ErrorInfo()
    if "google.rpc.ErrorInfo" not in packed or not packed["google.rpc.ErrorInfo"].Unpack(info):
        return "no ErrorInfo"
    return info.reason if "google.rpc.RetryInfo" in packed else "no RetryInfo"
