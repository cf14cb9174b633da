"""Certificates for tests: authorities, what they issue, and the files that servers and clients read them from."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trustme

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Identity:
    """A private key and the certificate that belongs to it, PEM."""

    key: bytes
    certificate: bytes

    def write(self, folder: Path) -> Path:
        """Puts them into a folder as Kubernetes would: tls.key and tls.crt; the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tls.key").write_bytes(self.key)
        (folder / "tls.crt").write_bytes(self.certificate)
        return folder


class Authority:
    """A certificate authority of its own."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.pem = self._ca.cert_pem.bytes()

    def issue(self, *names: str, common_name: str | None = None, expires: datetime | None = None) -> Identity:
        """A certificate for host names and addresses, valid unless it expires."""
        issued = self._ca.issue_cert(*names, common_name=common_name, not_before=LONG_AGO, not_after=expires)
        return Identity(issued.private_key_pem.bytes(), b"".join(blob.bytes() for blob in issued.cert_chain_pems))
