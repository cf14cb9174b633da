"""Translates the limits of connections' lifetime and keepalive into gRPC's options."""

from __future__ import annotations

import math
from typing import Protocol

NEVER_MS = 2**31 - 1
"""gRPC's largest number of milliseconds, which means "never"."""

MANY = 2**31 - 1

HANDSHAKE_SECONDS = 20.0
"""The time limit of a handshake of TLS and HTTP/2; gRPC would hold the connection for two minutes."""


class ConnectionSettings(Protocol):
    """The settings that bound connections; 0 means no limit, or never."""

    max_connections: int
    max_message_bytes: int
    max_metadata_bytes: int
    max_streams: int
    keepalive_seconds: float
    keepalive_timeout_seconds: float
    min_ping_seconds: float
    max_connection_idle_seconds: float
    max_connection_age_seconds: float
    max_connection_age_grace_seconds: float


def server_options(settings: ConnectionSettings) -> list[tuple[str, int]]:
    """Returns the options of a grpc.aio.server."""
    # gRPC has no value for "no limit" here.
    connections = settings.max_connections or MANY
    return [
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Between the two limits gRPC rejects some calls and not others.
        ("grpc.max_metadata_size", settings.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", settings.max_metadata_bytes),
        ("grpc.max_concurrent_streams", settings.max_streams),
        # Otherwise streams count until Python has freed them, and busy clients that keep the limit are refused.
        ("grpc.http.overload_protection", 0),
        # Otherwise two servers on one port would each get some of the calls, unnoticed.
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", _milliseconds(HANDSHAKE_SECONDS)),
        ("grpc.keepalive_time_ms", _milliseconds(settings.keepalive_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(settings.keepalive_timeout_seconds)),
        # Current versions of gRPC use this option; without it, pings have a minute, whatever the option above says.
        ("grpc.http2.ping_timeout_ms", _milliseconds(settings.keepalive_timeout_seconds)),
        # Without this, idle connections are never pinged, and clients that ping them are disconnected.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", round(settings.min_ping_seconds * 1000)),
        ("grpc.max_connection_idle_ms", _milliseconds(settings.max_connection_idle_seconds)),
        ("grpc.max_connection_age_ms", _milliseconds(settings.max_connection_age_seconds)),
        ("grpc.max_connection_age_grace_ms", _milliseconds(settings.max_connection_age_grace_seconds)),
    ]


def _milliseconds(seconds: float) -> int:
    """Converts seconds to milliseconds; 0 seconds mean never."""
    return math.ceil(seconds * 1000) or NEVER_MS
