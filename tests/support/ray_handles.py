"""Handles of deployments on Ray Serve whose replicas do what a test says; no Ray runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any


class Handle:
    """A model whose replicas do one thing after the other: answer some messages, then fail, if so."""

    deployment_name = "a"

    def __init__(self, *does: tuple[list[bytes], Exception | None]) -> None:
        self._does = list(does)
        self.asked = 0
        self.ask = self.stream = self

    def options(self, **_: object) -> Handle:
        return self

    def remote(self, _: object) -> Replies:
        self.asked += 1
        return Replies(*self._does.pop(0))


class Replies:
    """What `remote` gives."""

    def __init__(self, messages: list[bytes], failure: Exception | None) -> None:
        self._messages, self._failure = messages, failure

    async def _once(self) -> bytes:
        if self._failure:
            raise self._failure
        return self._messages[0]

    def __await__(self) -> Any:
        return self._once().__await__()

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        for message in self._messages:
            yield message
        if self._failure:
            raise self._failure

    def cancel(self) -> None:
        """Nobody reads on."""
