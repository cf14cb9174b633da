"""Assembles TLS and authorization of one server from its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import grpc

from bertscope_service.observability.metrics import Metrics
from bertscope_service.rpc.authorization import AuthorizationInterceptor
from bertscope_service.security.access import Access
from bertscope_service.security.tls import Certificates, parse_certificates, server_credentials
from bertscope_service.security.tokens import watched_tokens
from bertscope_service.security.watched_files import Watched, watch


class SecuritySettings(Protocol):
    """The settings that decide who may connect and call."""

    host: str
    tls_certificate: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    tokens_file: Path | None


class ServerSecurity:
    """The credentials of the server's port and its authorization interceptors, both empty if the settings want none."""

    def __init__(self, settings: SecuritySettings, metrics: Metrics) -> None:
        """Raises FailedPrecondition for files that can't be used."""
        self.credentials: grpc.ServerCredentials | None = None
        self.interceptors: list[grpc.aio.ServerInterceptor] = []
        self._files: list[Watched[Any]] = []
        if settings.tls_certificate and settings.tls_key:
            paths = [settings.tls_certificate, settings.tls_key, *([settings.tls_client_ca] if settings.tls_client_ca else [])]
            certificates = Watched("tls_certificate", paths, parse_certificates, metrics.reload_failing)
            self.credentials = server_credentials(certificates, mutual=bool(settings.tls_client_ca))
            self._files.append(certificates)
            _report_expiry(certificates, metrics)
        if settings.tokens_file:
            tokens = watched_tokens(settings.tokens_file, metrics.reload_failing, mutual=bool(settings.tls_client_ca))
            self.interceptors.append(AuthorizationInterceptor(Access(lambda: tokens.value), metrics))
            self._files.append(tokens)

    async def watch(self) -> None:
        """Reads changed files again, until cancelled."""
        await watch(self._files)


def _report_expiry(certificates: Watched[Certificates], metrics: Metrics) -> None:
    """Lets the metrics report, at each scrape, when the current certificates expire."""
    metrics.certificate_expiry.labels("tls_certificate").set_function(lambda: certificates.value.expires)
    if certificates.value.client_ca_expires is not None:
        metrics.certificate_expiry.labels("tls_client_ca").set_function(lambda: certificates.value.client_ca_expires or 0)
