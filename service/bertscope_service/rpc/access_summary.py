"""Describes at start-up who can reach a server and what they may do, so that an open server is noticed early."""

from __future__ import annotations

import logging

from bertscope.rpc.credentials import is_loopback_host

from bertscope_service.rpc.server_security import SecuritySettings


def access_summary(settings: SecuritySettings) -> tuple[int, str]:
    """Returns how open a server with these settings is, and how to close it: a logging level and a line."""
    local, encrypted = is_loopback_host(settings.host), settings.tls_certificate is not None
    level = logging.INFO if local else logging.WARNING
    if settings.tokens_file is not None:
        if encrypted:
            return logging.INFO, "callers need a token, and speak TLS"
        if local:
            return level, "callers need a token; on this machine only, so without TLS"
        return (
            level,
            "callers need a token, which travels in clear text, as texts do; encrypt with --tls-certificate and --tls-key",
        )
    if settings.tls_client_ca is not None:
        return (
            logging.INFO,
            "every caller with a certificate of --tls-client-ca may do everything; give roles with --tokens-file",
        )
    who = "every process on this machine" if local else f"anyone who can reach {settings.host}"
    load = "load any, and write compressed ones to disk" if local else "load what --model-root and --model-hub allow"
    may = f"{who} may ask and unload models, and {load}"
    if encrypted:
        return level, f"{may}, because callers are not authenticated; close it with --tokens-file or --tls-client-ca"
    unread = "" if local else ", and anyone on the network can read the texts"
    return level, f"{may}{unread}; close it with --tokens-file, --tls-certificate and --tls-key"
