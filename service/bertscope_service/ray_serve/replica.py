"""A replica of a model: a process that Ray starts, watches and replaces."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import ray

from bertscope_service.ray_serve.calls import Question, Refusal

if TYPE_CHECKING:
    from bertscope_service.ray_serve.answering import Answering


class ModelReplica:
    """One model on the CPUs and GPUs that Ray has given to this process."""

    async def __init__(self, settings: dict[str, Any]) -> None:  # type: ignore[misc]
        """Initialises the replica; awaited by Ray, which sends no call before. Raises ServiceError."""
        from bertscope_service.observability import logs
        from bertscope_service.rpc import native_environment as process

        process.prepare()
        # Imported here: deploying needs this class, but not PyTorch.
        from bertscope_service.ray_serve.answering import Answering
        from bertscope_service.settings import Settings

        given: Any = ray.get_runtime_context()
        cpus = given.get_assigned_resources().get("CPU", 0)
        read = Settings(**({"threads": max(1, int(cpus))} | settings))
        logs.configure(read.log_format, read.log_level)
        self._answering: Answering = Answering(read)
        await self._answering.load_models()

    async def ask(self, question: Question) -> bytes | Refusal:
        """Returns the serialised reply of a unary method."""
        return await self._answering.ask(question)

    async def stream(self, question: Question) -> AsyncGenerator[bytes | Refusal, None]:
        """Yields the serialised replies of a streaming method; a refusal is the last one."""
        async with aclosing(self._answering.stream(question)) as replies:
            async for reply in replies:
                yield reply

    def check_health(self) -> None:
        """Raises RuntimeError for a replica that must be replaced. Called by Ray every few seconds."""
        if self._answering.broken:
            raise RuntimeError("the device has failed for good")

    async def __del__(self) -> None:
        """Frees everything; awaited by Ray before it ends the process."""
        await self._answering.close()
