"""Streams a tensor for each text: its header, then its layers in chunks, computed at most a window ahead of the reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bertscope.v1.attention_pb2 import AttentionChunk, ExtractAttentionRequest, ExtractAttentionResponse
from bertscope.v1.representation_states_pb2 import ExtractHiddenStatesRequest, ExtractHiddenStatesResponse, StatesChunk
from numpy.typing import NDArray

from bertscope_service.analyses.layer_steps import LayerObserver, LayerPlan, LayerStep, LayerTensor
from bertscope_service.api.answer import Backend, Call, Context, Read
from bertscope_service.api.tensor_chunks import render_chunks
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.loaded import LoadedModel

if TYPE_CHECKING:
    import torch

TextT = TypeVar("TextT", bound=LayerTensor)
Request = TypeVar("Request", ExtractAttentionRequest, ExtractHiddenStatesRequest)
Response = TypeVar("Response", ExtractAttentionResponse, ExtractHiddenStatesResponse)


@dataclass(frozen=True, slots=True)
class TensorStream(Generic[TextT, Response]):
    """The messages of one rpc: a function that renders the header of a text, by its index, and the kind of a chunk."""

    render_header: Callable[[int, TextT, LoadedModel], Response]
    chunk: type[AttentionChunk | StatesChunk]

    async def send(self, texts: Sequence[TextT], call: Call, edits: Edits | None) -> AsyncGenerator[Response | bytes, None]:
        """Yields headers, and chunks that are serialised already, text by text; texts run ahead of their reader within its
        window. Close it explicitly: texts that run ahead must not wait for garbage collection after the client is gone.

        Raises FailedPrecondition for values that are not finite.
        """
        all_ahead = call.backend.read_ahead
        runs: deque[_TextRun] = deque()
        started = ahead_bytes = 0
        try:
            for index, text in enumerate(texts):
                while started < len(texts) and (started == index or all_ahead.fits(ahead_bytes, texts[started].bytes)):
                    runs.append(_TextRun(texts[started], call, edits, admitted=started > 0))
                    ahead_bytes += texts[started].bytes
                    all_ahead.bytes += texts[started].bytes
                    started += 1
                async for observer, block in runs[0].steps():
                    if observer is text.steps[0]:
                        # Sent with the first values, so that an error before them is a status, not a broken stream.
                        yield self.render_header(index, text, call.model)
                    for place, layer in enumerate(observer.layers):
                        for response in render_chunks(self.chunk, index, text.offset(layer), block[place]):
                            yield response
                    del block  # it must not stay in memory beside the next step's
                ahead_bytes -= text.bytes
                all_ahead.bytes -= text.bytes
                runs.popleft()
        finally:
            all_ahead.bytes -= ahead_bytes
            for run_ahead in runs:
                run_ahead.cancel()


async def stream_tensors(
    backend: Backend,
    request: Request,
    context: Context,
    plan: Read[Request, LayerPlan[TextT]],
    form: TensorStream[TextT, Response],
) -> AsyncGenerator[Response | bytes, None]:
    """Answers a request for tensors: a header and chunks for each text."""
    with backend.registry.use(request.model) as model:
        call = Call.of(backend, model, context)
        # All texts are tokenized before the first one runs, so that a text that is too long is an error at once.
        planned, edits = await call.prepare(request, plan)
        async with aclosing(form.send(planned.texts, call, edits)) as responses:
            async for response in responses:
                yield response


class _TextRun:
    """A text whose first step starts at once; each other step starts when the reader has taken the one before."""

    def __init__(self, plan: LayerTensor, call: Call, edits: Edits | None, *, admitted: bool) -> None:
        """Starts the first step. `admitted`: a full queue can't reject it."""
        self.plan = plan
        self._call = call
        self._gates = edits
        self._first = asyncio.create_task(self._step(0, None, None, admitted=admitted))
        # Retrieves the error of a step that fails after its client is gone.
        self._first.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def steps(self) -> AsyncIterator[tuple[LayerObserver, NDArray[Any]]]:
        """Yields each step's observer and values."""
        step = await self._first
        del self._first
        yield self.plan.steps[0], step.values
        for number, observer in enumerate(self.plan.steps[1:], start=1):
            state, product = step.state, step.product
            del step
            # Only the first step can be rejected.
            step = await self._step(number, state, product, admitted=True)
            yield observer, step.values

    def cancel(self) -> None:
        """Cancels the first step if nobody has read it."""
        if hasattr(self, "_first"):
            self._first.cancel()

    async def _step(self, number: int, state: State | None, product: torch.Tensor | None, *, admitted: bool) -> LayerStep:
        observer = self.plan.steps[number].after(product)
        row = Row(self._call.model.encoder, self.plan.sequence, observer, self._gates, state)
        (step,) = await self._call.run([row], admitted=admitted)
        found: LayerStep = step
        if not found.finite:
            message = (
                "the model's states are not finite in this precision, in this dtype or under these interventions; request "
                "float32, load the model in fp32 or bf16, or use smaller scales"
            )
            raise FailedPrecondition(message, "STATES_NOT_FINITE")
        return found
