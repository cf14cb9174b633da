# Generated from bertscope/rpc/async_health.py. Do not edit: change that file, and run `make client`.
"""Calls for a server's health: `health`, `wait_until_serving`."""

from __future__ import annotations

from contextlib import closing

from google.protobuf.wrappers_pb2 import Int32Value

from bertscope.client.connection import Connection
from bertscope.errors import NotFound, Unavailable
from bertscope.rpc import contract, health
from bertscope.rpc.channel import deadline
from bertscope.rpc.health import Health


class HealthCalls(Connection):
    """The methods of `Client` that ask whether the server serves."""

    def health(self, *, timeout: float | None = None) -> Health:
        """Returns the current health of the server and of each of its services."""
        services = {service: self._check(service, timeout) for service in ("", *contract.SERVICES)}
        return Health(status=services.pop(""), services=services)

    def wait_until_serving(self, timeout: float | None = None) -> None:
        """Waits until the server is reachable and serves. Raises DeadlineExceeded after `timeout` seconds."""
        seconds = deadline(timeout, self._timeout)
        watch = self._stream(health.request(""), Int32Value, seconds, path=health.WATCH, wait_for_ready=True)
        with closing(watch) as statuses:
            for status in statuses:
                if health.status(status) == "SERVING":
                    return
        raise Unavailable("the server stopped telling its health before it was serving")

    def _check(self, service: str, timeout: float | None) -> str:
        try:
            return health.status(self._call(health.request(service), Int32Value, timeout, path=health.CHECK))
        except NotFound:
            return "SERVICE_UNKNOWN"
