"""How long connections live and how they are kept alive, in gRPC's own terms."""

from __future__ import annotations

import math

from bertscope_service.settings import Settings

NEVER_MS = 2**31 - 1
"""gRPC's largest number of milliseconds, which it takes for "never"."""

HANDSHAKE_SECONDS = 20.0
"""Who has not ended the handshake of TLS and HTTP/2 by then is no client; gRPC would hold the connection for two minutes."""


def server_options(settings: Settings) -> list[tuple[str, int]]:
    """The options of a grpc.aio.server."""
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Between the two gRPC refuses some calls and not others.
        ("grpc.max_metadata_size", settings.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", settings.max_metadata_bytes),
        ("grpc.max_concurrent_streams", settings.max_streams),
        # Two servers on one port would each get some of the calls, and nobody would be told.
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", _milliseconds(HANDSHAKE_SECONDS)),
        ("grpc.keepalive_time_ms", _milliseconds(settings.keepalive_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(settings.keepalive_timeout_seconds)),
        # This is what current cores of gRPC go by; without it, pings have a minute, whatever the option above says.
        ("grpc.http2.ping_timeout_ms", _milliseconds(settings.keepalive_timeout_seconds)),
        # Without this, an idle connection is never pinged, and a client that pings one is taken for a nuisance.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", round(settings.min_ping_seconds * 1000)),
        ("grpc.max_connection_idle_ms", _milliseconds(settings.max_connection_idle_seconds)),
        ("grpc.max_connection_age_ms", _milliseconds(settings.max_connection_age_seconds)),
        ("grpc.max_connection_age_grace_ms", _milliseconds(settings.max_connection_age_grace_seconds)),
    ]


def _milliseconds(seconds: float) -> int:
    """0 seconds: never."""
    return math.ceil(seconds * 1000) or NEVER_MS
