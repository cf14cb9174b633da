"""Decides whether a call is admitted, from its method, its metadata and its connection's certificate, before its request is
read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from bertscope_service.contract import Role, required
from bertscope_service.errors import PermissionDenied, Unauthenticated
from bertscope_service.security.tokens import Principal, Tokens

AUTHORIZATION = "authorization"
SCHEME = "bearer"
TOKEN_MISSING, TOKEN_UNKNOWN, ROLE_REQUIRED = REASONS = ("TOKEN_MISSING", "TOKEN_UNKNOWN", "ROLE_REQUIRED")

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]


class Access:
    """The rules by which calls are admitted. `tokens` is called for each call, so that they may change."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens

    def admit(self, path: str, metadata: Metadata, subjects: Iterable[str] = ()) -> Principal | None:
        """Returns the caller of "/package.Service/Method", or None if the method is open to all.

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
        """Returns whether the connection's certificate decides: if certificates can have roles, for a call that brings no
        token."""
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
    """Returns the bearer token of a call, or None if it has none or uses another scheme."""
    for name, value in metadata:
        if name == AUTHORIZATION and isinstance(value, str):
            scheme, _, token = value.strip().partition(" ")
            return token.strip() if scheme.lower() == SCHEME else None
    return None
