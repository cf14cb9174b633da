"""Decides about a call from what comes before its request: the method, the metadata, the certificate of the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from bertscope_service.errors import PermissionDenied, Unauthenticated
from bertscope_service.security.roles import Role, required
from bertscope_service.security.tokens import Principal, Tokens

AUTHORIZATION = "authorization"
SCHEME = "bearer"
TOKEN_MISSING, TOKEN_UNKNOWN, ROLE_REQUIRED = REASONS = ("TOKEN_MISSING", "TOKEN_UNKNOWN", "ROLE_REQUIRED")

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]


class Access:
    """The rule by which calls are let in. `tokens` is asked for each call, so that it may change."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens

    def admit(self, path: str, metadata: Metadata, subjects: Iterable[str] = ()) -> Principal | None:
        """Who calls "/package.Service/Method"; None where nobody needs to say.

        A token counts before the certificate, whose names are `subjects`. Raises Unauthenticated and PermissionDenied.
        """
        needed = required(path)
        if needed is Role.ANYONE:
            return None
        principal = self._identify(metadata, subjects)
        if principal.role < needed:
            role = needed.name.lower()
            message = f"this method needs the role {role}, and {principal.name} has {principal.role.name.lower()}"
            raise PermissionDenied(f"{message}; ask with a token of that role", ROLE_REQUIRED, role=role)
        return principal

    def needs_certificate(self, path: str, metadata: Metadata) -> bool:
        """Whether the certificate of the connection decides: where a name may have one, for a call that brings no token."""
        return required(path) > Role.ANYONE and self._tokens().know_certificates and _token(metadata) is None

    def _identify(self, metadata: Metadata, subjects: Iterable[str]) -> Principal:
        tokens, token = self._tokens(), _token(metadata)
        if token is None:
            principal = tokens.of_certificate(subjects)
            if principal is None:
                message = "this server answers callers that it knows; send a token as metadata, authorization: Bearer TOKEN"
                also = ", or connect with a certificate that it knows" if tokens.know_certificates else ""
                raise Unauthenticated(f"{message}{also}", TOKEN_MISSING)
            return principal
        principal = tokens.of_token(token)
        if principal is None:
            message = "this server does not know the token, or does not any more; ask who runs it for another"
            raise Unauthenticated(message, TOKEN_UNKNOWN)
        return principal


def _token(metadata: Metadata) -> str | None:
    """The bearer token of a call, if it has one; of another scheme, none."""
    for name, value in metadata:
        if name == AUTHORIZATION and isinstance(value, str):
            scheme, _, token = value.strip().partition(" ")
            return token.strip() if scheme.lower() == SCHEME else None
    return None
