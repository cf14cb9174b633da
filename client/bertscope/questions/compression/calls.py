"""Calls for smaller and faster models: `compress_model`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bertscope.questions.compression.messages import CompressionProgress, read_compression_event, step_messages
from bertscope.questions.compression.steps import Step
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_streams import last
from bertscope.v1 import model_pb2
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncCompressionCalls(AsyncConnection):
    """The methods of `AsyncClient` that compress models."""

    async def compress_model(
        self,
        model_id: str,
        steps: Step | Iterable[Step],
        *,
        model: str | Model | None = None,
        folder: str | None = None,
        on_progress: Callable[[CompressionProgress], object] | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Makes a smaller or faster model of `model`, which stays loaded, and loads it under `model_id`.

        `steps` are made by `onnx`, `int8`, `weight_only`, `half`, `keep_layers`, `remove_heads`, `remove_feed_forward`,
        `magnitude`, `eliminate_tokens`, `reduce_vocabulary` and `untrained`, each at most once. What each did is in the new
        model's `compression`. `folder`, on the server, absolute and empty or new, keeps the model. An exception in
        `on_progress`, or Ctrl-C, abandons the work.
        Raises AlreadyExists for an id in use, and Unimplemented for a step that the model can't take.

        >>> await client.compress_model("small", [bertscope.keep_layers([0, 2, 4]), bertscope.int8()])  # doctest: +SKIP
        """
        request = request_of(
            model_pb2.CompressModelRequest,
            model=model,
            model_id=model_id,
            steps=step_messages(steps),
            folder=folder,
        )
        messages = self._stream(request, model_pb2.CompressModelResponse, timeout)
        return await last(messages, read_compression_event, on_progress, Model, "compression without a model")
