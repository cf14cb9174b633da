"""Callers with tokens, and the lines that let them in."""

import hashlib
from typing import Any

from tests.support.harness import CALL_SECONDS

READER, ADMIN, STRANGER = "reader-token-of-nobody-else", "admin-token-of-nobody-else", "stranger-token-of-nobody-else"


def line(name: str, role: str, token: str) -> str:
    return f"{name} {role} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"


def bearing(token: str) -> dict[str, Any]:
    return {"metadata": (("authorization", f"Bearer {token}"),), "timeout": CALL_SECONDS}
