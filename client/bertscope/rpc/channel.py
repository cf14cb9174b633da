"""Holds the shared parts of both clients' channels: options, retries, deadlines, methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from operator import methodcaller
from types import MappingProxyType
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from bertscope._version import __version__
from bertscope.errors import from_call, invalid_argument
from bertscope.rpc import contract
from bertscope.rpc.logs import failed
from bertscope.rpc.retries import Retries
from bertscope.rpc.targets import Target
from bertscope.values import validation

Method = TypeVar("Method")

DEFAULT_TIMEOUT_SECONDS = 60.0
MAX_TIMEOUT_SECONDS = 1e9
"""Longer ones overflow gRPC's clock, and nobody waits for them."""

ChannelOptions = Iterable[tuple[str, Any]]

RETRYABLE = ("UNAVAILABLE", "CANCELLED")
"""A gRPC server answers CANCELLED to a call that reaches it before its client knows that it stops. A call that the caller
cancelled is not retried, nor is one that already brought a message."""

MAX_REPLY_BYTES = 2**30
"""A reply of FillMask with the whole vocabulary for many masks exceeds gRPC's default of 4 MiB."""

# Servers disconnect clients that ping more often than every 5 minutes. A quiet stream (a long load) needs a ping now and
# then, or it would wait for ever on a server that vanished without closing the connection.
KEEPALIVE_MILLISECONDS = 6 * 60 * 1000
PING_MILLISECONDS = 3 * 60 * 1000
"""How long a ping may stay unanswered. A server that gets no processor or waits for its memory answers late, and its work is
lost with the connection; gRPC's own limit is a minute."""

RECONNECT_MILLISECONDS = (100, 1000)
"""The first and the longest pause between attempts to connect to an address. gRPC's own grow to two minutes: a client of two
servers would still not know the first again when the second goes."""

HEALTH_CHECK = {"serviceName": ""}
"""With round_robin, gRPC watches the health of each server as a whole and calls only those that serve."""


def service_config(retries: Retries) -> str:
    """Returns gRPC's service config: which methods are retried, and how, and that servers' health counts. No method is retried
    if a call may be tried only once."""
    config: dict[str, Any] = {"healthCheckConfig": HEALTH_CHECK}
    if retries.attempts == 1:
        return json.dumps(config)
    policy = {
        "maxAttempts": retries.attempts,
        "initialBackoff": f"{retries.first_seconds:.9f}s",
        "maxBackoff": f"{retries.most_seconds:.9f}s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": RETRYABLE,
    }
    names = [{"service": method.containing_service.full_name, "method": method.name} for method in contract.IDEMPOTENT]
    return json.dumps(config | {"methodConfig": [{"name": names, "retryPolicy": policy}]})


def channel_options(
    options: ChannelOptions, retries: Retries, security: Mapping[str, Any] = MappingProxyType({}), *, shared: bool = False
) -> list[tuple[str, Any]]:
    """Returns our options and those of TLS; the caller's options replace those of the same name. With `shared`, each call goes
    to the next of several servers that serve."""
    first, longest = RECONNECT_MILLISECONDS
    defaults: dict[str, Any] = {
        "grpc.max_receive_message_length": MAX_REPLY_BYTES,
        "grpc.service_config": service_config(retries),
        "grpc.enable_retries": int(retries.attempts > 1),
        "grpc.initial_reconnect_backoff_ms": first,
        "grpc.max_reconnect_backoff_ms": longest,
        "grpc.keepalive_time_ms": KEEPALIVE_MILLISECONDS,
        # Not grpc.keepalive_timeout_ms: that is how long the other machine's kernel may be silent, too.
        "grpc.http2.ping_timeout_ms": PING_MILLISECONDS,
        "grpc.primary_user_agent": f"bertscope-python/{__version__}",
    }
    if shared:
        defaults["grpc.lb_policy_name"] = "round_robin"
    return list((defaults | dict(security) | dict(options)).items())


def deadline(timeout: float | None, default: float | None) -> float | None:
    """Returns the seconds that a call may take: the call's own, else the default; None and over 30 years mean no limit.

    Raises InvalidArgument unless it is above 0.
    """
    value = default if timeout is None else timeout
    if value is None:
        return None
    seconds = validation.number("timeout", value)
    if not seconds > 0:
        raise invalid_argument("timeout", f"must be above 0 seconds, not {seconds:g}; math.inf means no limit")
    return None if seconds > MAX_TIMEOUT_SECONDS else seconds


class Failures:
    """Turns failures of a call with a timeout into our errors. As a generator it would take several times as long."""

    __slots__ = ("_seconds", "_target")

    def __init__(self, target: Target, seconds: float | None) -> None:
        self._target, self._seconds = target, seconds

    def __enter__(self) -> None:
        """Begins the call."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, grpc.RpcError):
            # gRPC's own traceback says nothing to a caller; `grpc_error` has it.
            raise failed(from_call(error, self._seconds, self._target.advice)) from None


class Methods:
    """The methods of a channel, each made once."""

    def __init__(self) -> None:
        self._methods: dict[str, Any] = {}
        self._closed = False

    def _method(self, make: Callable[[], Callable[..., Method]], path: str, reply: type[Message]) -> Method:
        if self._closed:
            raise RuntimeError("the client is closed")
        method: Method | None = self._methods.get(path)
        if method is None:
            serialize = methodcaller("SerializeToString")
            method = self._methods[path] = make()(path, request_serializer=serialize, response_deserializer=reply.FromString)
        return method
