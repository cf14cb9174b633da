"""Streams of tensors of any number of texts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from bertscope.errors import BertscopeError
from bertscope.rpc.assembly import Assembler, ExtractResponse, Tensors
from bertscope.rpc.async_many_texts import AsyncManyTexts
from bertscope.rpc.channel import deadline
from bertscope.rpc.resumption import Build, Extractions
from bertscope.rpc.splitting import OnRejected, Parts
from bertscope.rpc.tasks import sleep
from bertscope.values.messages import Asked


class AsyncTensorStreams(AsyncManyTexts):
    """Calls that stream a tensor for each text."""

    async def _extract(
        self,
        build: Build,
        response: type[ExtractResponse],
        assembler: Callable[[Any], Assembler[Any, Tensors]],
        asked: Asked[Any],
        timeout: float | None,
        on_rejected: OnRejected | None = None,
    ) -> AsyncGenerator[Tensors, None]:
        """Yields the tensor of each text as soon as it is complete; `build` makes the request about some texts.

        If the server goes away meanwhile, the missing texts are requested again, from another server if there is one.
        """
        parts = Parts(asked.items, asked.total, self._limit, large=True, on_rejected=on_rejected)
        extractions = Extractions(build, assembler, parts, deadline(timeout, None), self._retries.attempts)
        while (stream := extractions.next()) is not None:
            messages = self._stream(stream.request, response, stream.timeout)
            try:
                async with aclosing(messages):
                    async for message in messages:
                        found = extractions.add(message)
                        if found is not None:
                            yield found
                stream.end()
            except BertscopeError as error:
                await sleep(extractions.failed(error))
