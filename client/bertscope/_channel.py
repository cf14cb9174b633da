"""How a client connects: channel options, retries, deadlines. Shared by both clients."""

import json
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from bertscope import _encoding
from bertscope._version import __version__
from bertscope.errors import invalid_argument

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT_SECONDS = 60.0
MAX_TIMEOUT_SECONDS = 1e9
"""Longer ones overflow gRPC's clock, and nobody waits for them."""

ChannelOptions = Iterable[tuple[str, Any]]

IDEMPOTENT_METHODS = {
    "bertscope.v1.ModelService": ("ListModels", "GetModel"),
    "bertscope.v1.ClozeService": ("FillMask",),
    "bertscope.v1.AttentionService": ("ExtractAttention",),
    "bertscope.v1.ClassificationService": ("Classify",),
    "bertscope.v1.AblationService": ("SweepHeads", "RankHeads"),
    "bertscope.v1.BenchmarkService": (),
}
"""What may be asked again when the server was not reached; a stream is asked again only before its first message. A
benchmark is not: it makes everybody else wait, so it begins only when it is asked for."""

RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 3,
    # CANCELLED is what a gRPC server says to a call that reaches it before its client has heard that it stops. What the caller
    # cancels is not asked again, nor is what already brought a message.
    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
}

MAX_REPLY_BYTES = 2**30
"""A reply of FillMask with the whole vocabulary for many masks is large; gRPC's default of 4 MiB is not."""

# Servers drop clients that ping more often than every 5 minutes. A quiet stream (a long load) needs a ping now and
# then, or it would wait for ever on a server that vanished without closing the connection.
KEEPALIVE_MILLISECONDS = 6 * 60 * 1000


def service_config() -> str:
    """gRPC's service config: which methods are retried, and how."""
    names = [{"service": service, "method": name} for service, names in IDEMPOTENT_METHODS.items() for name in names]
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": RETRY_POLICY}]})


def channel_options(options: ChannelOptions, security: Mapping[str, Any] = MappingProxyType({})) -> list[tuple[str, Any]]:
    """Our options with those that TLS needs, and the caller's in their place where both name one."""
    defaults: dict[str, Any] = {
        "grpc.max_receive_message_length": MAX_REPLY_BYTES,
        "grpc.service_config": service_config(),
        "grpc.enable_retries": 1,
        "grpc.keepalive_time_ms": KEEPALIVE_MILLISECONDS,
        "grpc.primary_user_agent": f"bertscope-python/{__version__}",
    }
    return list((defaults | dict(security) | dict(options)).items())


def deadline(timeout: float | None, default: float | None) -> float | None:
    """Seconds that a call may take: the call's own, else the default; None and over 30 years mean no limit.

    Raises InvalidArgument for what is no number.
    """
    value = default if timeout is None else timeout
    if value is None:
        return None
    seconds = _encoding.number("timeout", value)
    if math.isnan(seconds):
        raise invalid_argument("timeout", "must be a number, not nan")
    return None if seconds > MAX_TIMEOUT_SECONDS else max(-MAX_TIMEOUT_SECONDS, seconds)
