"""Implements the messages of grpc.health.v1 without its package, which only the server has.

HealthCheckRequest is one string with number 1 and HealthCheckResponse one enum with number 1, so that on the wire they are the
same as the StringValue and Int32Value that come with protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from bertscope.values.display import record

__all__ = ["Health"]

CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


def request(service: str) -> StringValue:
    """Returns a HealthCheckRequest."""
    return StringValue(value=service)


def status(response: Int32Value) -> str:
    """Returns the status in a HealthCheckResponse."""
    return STATUSES.get(response.value, str(response.value))


@record
class Health:
    """The health that a server reports."""

    status: str
    """Status of the whole server: "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN" or "UNKNOWN"."""
    services: Mapping[str, str]
    """Status of each bertscope service, by its full name."""

    @property
    def serving(self) -> bool:
        """True if the server serves and none of its services reports otherwise."""
        return self.status == "SERVING" and "NOT_SERVING" not in self.services.values()
