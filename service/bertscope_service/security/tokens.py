"""Maps tokens, by their digests, and certificates, by their names, to callers with roles."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from prometheus_client import Gauge

from bertscope_service.contract import Role
from bertscope_service.errors import FailedPrecondition
from bertscope_service.security.watched_files import Watched

UNREADABLE = "TOKENS_UNREADABLE"
ROLES = {"read": Role.READ, "admin": Role.ADMIN}

_NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
_CERTIFICATE = re.compile(r"certificate:(\S+)")


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller."""

    name: str
    role: Role


class Tokens:
    """Principals by their tokens and certificates; immutable.

    A name may have several lines: while a client changes from one token to the next, both are valid.
    """

    def __init__(self, digests: Iterable[tuple[bytes, Principal]], subjects: Iterable[tuple[str, Principal]] = ()) -> None:
        self._key = secrets.token_bytes(32)
        self._by_digest = {self._keyed_digest(digest): (digest, principal) for digest, principal in digests}
        self._by_subject = dict(subjects)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses lines of NAME ROLE sha256:DIGEST or NAME ROLE certificate:SUBJECT; "#" begins a comment.

        Raises FailedPrecondition, without quoting the wrong line: it may be a token.
        """
        digests: dict[bytes, Principal] = {}
        subjects: dict[str, Principal] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 3 or not _NAME.fullmatch(words[0]) or words[1] not in ROLES:
                raise _wrong(
                    number, "write NAME ROLE sha256:DIGEST, the role read or admin; `bertscope token` makes such a line"
                )
            principal = Principal(words[0], ROLES[words[1]])
            if match := _DIGEST.fullmatch(words[2]):
                known = digests.setdefault(bytes.fromhex(match[1]), principal)
            elif match := _CERTIFICATE.fullmatch(words[2]):
                known = subjects.setdefault(match[1], principal)
            else:
                raise _wrong(number, "its end must be sha256: and 64 hexadecimal digits, or certificate: and a name")
            if known is not principal:
                raise _wrong(number, "the token or certificate already has a line")
        if not digests and not subjects:
            raise FailedPrecondition("it has no lines; write one with `bertscope token`", UNREADABLE)
        return cls(digests.items(), subjects.items())

    def __len__(self) -> int:
        return len(self._by_digest) + len(self._by_subject)

    @property
    def know_certificates(self) -> bool:
        """True if a certificate can authenticate a caller without a token."""
        return bool(self._by_subject)

    def of_token(self, token: str) -> Principal | None:
        """Returns the owner of a token, or None.

        It takes as long for any token: the look-up uses a keyed hash, whose bytes no caller can choose, and the result is
        compared in constant time.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known, principal = self._by_digest.get(self._keyed_digest(digest), (b"", None))
        return principal if hmac.compare_digest(known, digest) else None

    def of_certificate(self, subjects: Iterable[str]) -> Principal | None:
        """Returns the principal of the first known one of a certificate's names, or None."""
        return next((self._by_subject[subject] for subject in subjects if subject in self._by_subject), None)

    def _keyed_digest(self, digest: bytes) -> bytes:
        return hmac.digest(self._key, digest, "sha256")


def watched_tokens(path: Path, failing: Gauge, *, mutual: bool) -> Watched[Tokens]:
    """Watches the tokens of a file, which may change later; `mutual`: clients are asked for certificates.

    Raises FailedPrecondition if it can't be used now.
    """

    def parse(contents: Sequence[bytes]) -> Tokens:
        # Bytes that are not UTF-8 make a line wrong, and the error says so.
        tokens = Tokens.parse(contents[0].decode(errors="replace"))
        if tokens.know_certificates and not mutual:
            message = (
                "it has lines for certificates, which clients are asked for with --tls-client-ca only; set it, or use tokens"
            )
            raise FailedPrecondition(message, UNREADABLE)
        return tokens

    return Watched("tokens_file", [path], parse, failing)


def _wrong(line: int, message: str) -> FailedPrecondition:
    return FailedPrecondition(f"line {line}: {message}", UNREADABLE, line=line)
