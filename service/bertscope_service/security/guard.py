"""What guards one server, put together from its settings."""

from __future__ import annotations

from typing import Any

import grpc

from bertscope_service.metrics import Metrics
from bertscope_service.security.access import Access
from bertscope_service.security.gate import Gate
from bertscope_service.security.tls import Certificates, parse_certificates, server_credentials
from bertscope_service.security.tokens import watched_tokens
from bertscope_service.security.watched import Watched, watch
from bertscope_service.settings import Settings


class Guard:
    """The credentials of the server's port and the interceptors before its calls, both empty where the settings want none."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Raises FailedPrecondition for files that can't be used."""
        self.credentials: grpc.ServerCredentials | None = None
        self.interceptors: list[grpc.aio.ServerInterceptor] = []
        self._files: list[Watched[Any]] = []
        if settings.tls_certificate and settings.tls_key:
            paths = [settings.tls_certificate, settings.tls_key, *([settings.tls_client_ca] if settings.tls_client_ca else [])]
            certificates = Watched("tls_certificate", paths, parse_certificates, metrics.reload_failing)
            self.credentials = server_credentials(certificates, mutual=bool(settings.tls_client_ca))
            self._files.append(certificates)
            _tell_expiry(certificates, metrics)
        if settings.tokens_file:
            tokens = watched_tokens(settings.tokens_file, metrics.reload_failing, mutual=bool(settings.tls_client_ca))
            self.interceptors.append(Gate(Access(lambda: tokens.value), metrics))
            self._files.append(tokens)

    async def watch(self) -> None:
        """Read files that change anew, until cancelled."""
        await watch(self._files)


def _tell_expiry(certificates: Watched[Certificates], metrics: Metrics) -> None:
    """Let the metrics say, whenever they are asked, when what is in force then expires."""
    metrics.certificate_expiry.labels("tls_certificate").set_function(lambda: certificates.value.expires)
    if certificates.value.client_ca_expires is not None:
        metrics.certificate_expiry.labels("tls_client_ca").set_function(lambda: certificates.value.client_ca_expires or 0)
