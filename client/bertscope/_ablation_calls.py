# ruff: noqa: ASYNC109  # the timeout is gRPC's deadline, which the server hears of, too
"""The methods of both clients that sweep, rank and prune heads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import SupportsIndex

from bertscope import _ablation_replies, _ablation_requests, _replies
from bertscope._ablation_requests import HeadsByLayer
from bertscope._connection import AsyncConnection, Connection
from bertscope._requests import Interventions
from bertscope.objectives import Greedy, Objective
from bertscope.ranking import HeadRanking
from bertscope.results import Model
from bertscope.sweeps import AsyncHeadSweep, HeadSweep, Response
from bertscope.v1 import ablation_pb2


class AblationCalls(Connection):
    """Of `Client`."""

    def sweep_heads(
        self,
        objective: Objective,
        *,
        model: str | Model | None = None,
        mode: str = "zero",
        factor: float | None = None,
        scope: str | None = None,
        sets: HeadsByLayer | Iterable[HeadsByLayer] | None = None,
        reference_texts: str | Iterable[str] = (),
        interventions: Interventions = (),
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        memory_bytes: SupportsIndex | None = None,
        greedy: Greedy | None = None,
        timeout: float | None = None,
    ) -> HeadSweep:
        """Changes every head, one after another, and measures what that does to an objective.

        `mode` is what a changed head contributes: "zero", "uniform", "mean" (over `reference_texts`) or "scale" (times
        `factor`). `scope` is "heads" (unless set) or "layers", all heads of one at once; `sets` measures given sets of
        heads instead, each a mapping {layer: head, heads or None for all}. `interventions` hold in all runs, the
        baseline too. With `greedy`, the sets are removed one after another, and the curve is drawn.

        Intervals are a paired bootstrap over the items: `resamples` (100 to 100,000; 1000 unless set), `seed`,
        `confidence` (0.5 to 0.999; 0.95 unless set). `memory_bytes` bounds the states that runs share on the server.
        """
        request = _ablation_requests.sweep_heads(
            objective,
            model=model,
            mode=mode,
            factor=factor,
            scope=scope,
            sets=sets,
            reference_texts=reference_texts,
            interventions=interventions,
            resamples=resamples,
            seed=seed,
            confidence=confidence,
            memory_bytes=memory_bytes,
            greedy=greedy,
        )
        return HeadSweep(request, self._stream(self._ablation.SweepHeads, request, timeout))

    def rank_heads(
        self,
        objective: Objective,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> HeadRanking:
        """Ranks all heads by gradient importance, one forward and one backward pass over the items.

        `objective` is one that has a loss: `MaskedLmLoss`, `ClozePrompts` or `LabelledTexts`.
        """
        request = _ablation_requests.rank_heads(
            objective, model=model, interventions=interventions, reference_texts=reference_texts
        )
        return _ablation_replies.head_ranking(self._call_long(self._ablation.RankHeads, request, timeout))

    def prune_heads(
        self,
        model_id: str,
        heads: HeadsByLayer,
        *,
        model: str | Model | None = None,
        folder: str | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Removes heads from the weights of `model`, which stays loaded, and loads what is left as a new model.

        `heads` is a mapping {layer: head, heads or None for all}, as `HeadRanking.least` and `HeadEffect.heads` give it.
        The heads that stay keep their numbers. `folder`, on the server, absolute and empty or new, keeps the model.
        Raises AlreadyExists for an id in use, and Unimplemented where heads can't be removed (ALBERT).
        """
        request = _ablation_requests.prune_heads(model_id, heads, model=model, folder=folder)
        return _replies.model(self._call_long(self._ablation.PruneHeads, request, timeout).model)


class AsyncAblationCalls(AsyncConnection):
    """Of `AsyncClient`."""

    def sweep_heads(
        self,
        objective: Objective,
        *,
        model: str | Model | None = None,
        mode: str = "zero",
        factor: float | None = None,
        scope: str | None = None,
        sets: HeadsByLayer | Iterable[HeadsByLayer] | None = None,
        reference_texts: str | Iterable[str] = (),
        interventions: Interventions = (),
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        memory_bytes: SupportsIndex | None = None,
        greedy: Greedy | None = None,
        timeout: float | None = None,
    ) -> AsyncHeadSweep:
        """Changes every head, one after another, see `Client.sweep_heads`."""
        request = _ablation_requests.sweep_heads(
            objective,
            model=model,
            mode=mode,
            factor=factor,
            scope=scope,
            sets=sets,
            reference_texts=reference_texts,
            interventions=interventions,
            resamples=resamples,
            seed=seed,
            confidence=confidence,
            memory_bytes=memory_bytes,
            greedy=greedy,
        )
        return AsyncHeadSweep(request, self._sweep_heads(request, timeout))

    async def rank_heads(
        self,
        objective: Objective,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> HeadRanking:
        """Ranks all heads by gradient importance, see `Client.rank_heads`."""
        request = _ablation_requests.rank_heads(
            objective, model=model, interventions=interventions, reference_texts=reference_texts
        )
        return _ablation_replies.head_ranking(await self._call_long(self._stubs.ablation.RankHeads, request, timeout))

    async def prune_heads(
        self,
        model_id: str,
        heads: HeadsByLayer,
        *,
        model: str | Model | None = None,
        folder: str | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Removes heads from the weights, see `Client.prune_heads`."""
        request = _ablation_requests.prune_heads(model_id, heads, model=model, folder=folder)
        response = await self._call_long(self._stubs.ablation.PruneHeads, request, timeout)
        return _replies.model(response.model)

    async def _sweep_heads(
        self, request: ablation_pb2.SweepHeadsRequest, timeout: float | None
    ) -> AsyncGenerator[Response, None]:
        # In a generator, so that the channel is made in the event loop, by the first message that is asked for.
        async with aclosing(self._stream(self._stubs.ablation.SweepHeads, request, timeout)) as messages:
            async for message in messages:
                yield message
