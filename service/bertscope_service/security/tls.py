"""Provides the server's side of TLS: certificates are checked before use, and replaced while connections come in."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from bertscope_service.errors import FailedPrecondition
from bertscope_service.security.watched_files import Watched

REASON = "CERTIFICATE_UNUSABLE"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The server's certificate and key, and the authorities that it checks clients by; expiry times are seconds since 1970."""

    configuration: grpc.ServerCertificateConfiguration
    expires: float
    client_ca_expires: float | None


def parse_certificates(contents: Sequence[bytes]) -> Certificates:
    """Parses the PEM files of a certificate with its chain, its key and, for mutual TLS, the clients' authorities.

    Raises FailedPrecondition if every handshake would fail: for files that are not PEM, another certificate's key, or an
    expired certificate.
    """
    certificate, key, *client_ca = contents
    chain = _load(certificate, "the certificate")
    _require_key_of(chain[0], key)
    expires = _expiry(chain)
    if expires <= datetime.now(UTC):
        raise FailedPrecondition(f"the certificate expired on {expires:%Y-%m-%d %H:%M} UTC; renew it", REASON)
    authorities = _load(client_ca[0], "the clients' authorities") if client_ca else None
    configuration = grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca[0] if client_ca else None)
    return Certificates(configuration, expires.timestamp(), _expiry(authorities).timestamp() if authorities else None)


def server_credentials(certificates: Watched[Certificates], *, mutual: bool) -> grpc.ServerCredentials:
    """Returns credentials that show each new connection the current certificates; older connections keep theirs."""
    given, lock = certificates.value, threading.Lock()

    def newer() -> grpc.ServerCertificateConfiguration | None:
        """Returns a configuration for gRPC, which calls this for each handshake in its own threads; None means no change."""
        nonlocal given
        with lock:
            if certificates.value is given:
                return None
            given = certificates.value
            return given.configuration

    fetcher: Any = newer  # its type hints lack None, which its documentation asks for
    return grpc.dynamic_ssl_server_credentials(given.configuration, fetcher, require_client_authentication=mutual)


def _load(pem: bytes, what: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise FailedPrecondition(f"{what}: no certificate in PEM form", REASON) from error


def _require_key_of(certificate: x509.Certificate, pem: bytes) -> None:
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise FailedPrecondition("the key has a passphrase; decrypt it", REASON) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FailedPrecondition("the key is not a private key in PEM form", REASON) from error
    if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey):
        raise FailedPrecondition("gRPC takes RSA and ECDSA keys, and this is another", REASON)
    try:
        certified = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FailedPrecondition("the certificate has a key that can't be read", REASON) from error
    if key.public_key() != certified:
        raise FailedPrecondition("the key is not the one of the certificate", REASON)


def _expiry(certificates: Sequence[x509.Certificate]) -> datetime:
    """Returns when the first of the certificates expires: from then on the chain is invalid."""
    return min(certificate.not_valid_after_utc for certificate in certificates)
