"""Checks the tokens and roles of our own server at the ingress."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from bertscope_service.security import callers
from bertscope_service.security.access import Access
from bertscope_service.security.tokens import watched_tokens
from bertscope_service.security.watched_files import watch

if TYPE_CHECKING:
    from ray.serve.grpc_util import RayServegRPCContext

logger = logging.getLogger(__name__)


class Authorizer:
    """Authorizes calls by their tokens. It belongs to the event loop."""

    def __init__(self, identity: callers.Identity, tokens_file: Path | None) -> None:
        """Raises FailedPrecondition for a tokens file that can't be used."""
        self._identity = identity
        self._access: Access | None = None
        # Ray's proxy listens on every address of its node.
        if tokens_file:
            logger.warning(
                "callers need a token, which travels in clear text, as texts do, unless a proxy before Ray's encrypts"
            )
            unseen = Gauge("bertscope_reload_failing", "Nobody scrapes an ingress.", ["file"], registry=None)
            tokens = watched_tokens(tokens_file, unseen, mutual=False)
            self._access = Access(lambda: tokens.value)
            self._watching = asyncio.create_task(watch([tokens]))
        else:
            logger.warning("anyone who can reach Ray's proxy may call all models; close it with tokens_file in the settings")

    def admit(self, path: str, context: RayServegRPCContext) -> str:
        """Returns the client of a call, by which the device is shared. Raises Unauthenticated, PermissionDenied."""
        if self._access is not None:
            # Each call has a task, and so a context, of its own.
            callers.principal.set(self._access.admit(path, context.invocation_metadata()))
        return callers.identify(context.peer(), self._identity)
