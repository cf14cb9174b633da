# ruff: noqa: ASYNC109  # the timeout is gRPC's deadline, which the server hears of, too
"""The methods of both clients that compress models."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bertscope import _compression_requests, _events, _replies
from bertscope._connection import AsyncConnection, Connection
from bertscope.compression import CompressionProgress, Step
from bertscope.results import Model


class CompressionCalls(Connection):
    """Of `Client`."""

    def compress_model(
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
        `magnitude`, `eliminate_tokens` and `reduce_vocabulary`, each at most once. What each did is in the new model's
        `compression`. `folder`, on the server, absolute and empty or new, keeps the model. An exception in `on_progress`,
        or Ctrl-C, abandons the work.
        Raises AlreadyExists for an id in use, and Unimplemented for a step that the model can't take.

        >>> client.compress_model("small", [bertscope.keep_layers([0, 2, 4]), bertscope.int8()])  # doctest: +SKIP
        """
        request = _compression_requests.compress_model(model_id, steps, model=model, folder=folder)
        messages = self._stream(self._models.CompressModel, request, timeout)
        return _replies.compressed(_events.last(messages, _replies.compression_event, CompressionProgress, on_progress))


class AsyncCompressionCalls(AsyncConnection):
    """Of `AsyncClient`."""

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
        """Makes a smaller or faster model of `model`, see `Client.compress_model`."""
        request = _compression_requests.compress_model(model_id, steps, model=model, folder=folder)
        messages = self._stream(self._stubs.models.CompressModel, request, timeout)
        found = await _events.last_of(messages, _replies.compression_event, CompressionProgress, on_progress)
        return _replies.compressed(found)
