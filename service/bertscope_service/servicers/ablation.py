"""AblationService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from bertscope.v1 import ablation_pb2, ablation_pb2_grpc

from bertscope_service.analyses.ablation import Effect, Event, Order, Point, Start
from bertscope_service.analyses.objective import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.jobs.evaluation import Change, Evaluation
from bertscope_service.jobs.ranking import rank_heads
from bertscope_service.jobs.sweep import Sweep
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.ablation import (
    check_draws,
    check_rankable,
    parse_prune,
    parse_references,
    parse_sweep,
    render_effect,
    render_point,
    render_ranking,
    render_start,
    render_summary,
)
from bertscope_service.messages.common import parse_interventions
from bertscope_service.messages.model import render_model
from bertscope_service.messages.objectives import parse_objective
from bertscope_service.servicers.base import INLINE_BYTES, Backend, Caller, off_loop
from bertscope_service.servicers.requirements import require_gradients, require_objective, require_observable

Context = grpc.aio.ServicerContext[Any, Any]


class AblationServicer(ablation_pb2_grpc.AblationServiceServicer):
    """Measures what heads are worth, and removes those that are worth nothing."""

    def __init__(self, backend: Backend, memory_bytes: int) -> None:
        """`memory_bytes`: most that a sweep may keep of shared states."""
        self._backend = backend
        self._memory_bytes = memory_bytes

    async def SweepHeads(
        self, request: ablation_pb2.SweepHeadsRequest, context: Context
    ) -> AsyncIterator[ablation_pb2.SweepHeadsResponse]:
        with self._backend.registry.use(request.model) as model:
            sweep = await self._sweep(request, model, Caller.of(context))
            # Closed here and now: what waits in the queue must not wait for a garbage collector once the reader is gone.
            async with aclosing(sweep.events()) as events:
                async for event in events:
                    yield render(event, model)

    async def _sweep(self, request: ablation_pb2.SweepHeadsRequest, model: LoadedModel, caller: Caller) -> Sweep:
        encoder, engine, limits = model.encoder, self._backend.engine, self._backend.limits
        large = request.ByteSize() > INLINE_BYTES
        query = await off_loop(lambda: parse_objective(request, limits), large=large)
        require_objective(model, query)
        require_observable(model)
        shape, memory_bytes = encoder.shape, self._memory_bytes
        sweep = await off_loop(lambda: parse_sweep(request, query, shape, limits, model.name, memory_bytes), large=large)
        interventions = parse_interventions(request.interventions, encoder.shape, model.name)
        objective = await self._build(query, model)
        check_draws(sweep.bootstrap, objective.items)
        change = Change(sweep.mode, sweep.scale, await caller.means(engine, model, sweep.reference_texts))
        bulk = caller.bulk(engine, encoder)
        evaluation = await off_loop(lambda: Evaluation(encoder, objective, bulk, change, sweep.memory_bytes), large=True)
        gradients = encoder
        if sweep.greedy is not None and sweep.greedy.order is Order.IMPORTANCE:
            gradients = (await self._backend.registry.with_gradients(model)).encoder
        return Sweep(evaluation, sweep, interventions, gradients)

    async def RankHeads(self, request: ablation_pb2.RankHeadsRequest, context: Context) -> ablation_pb2.RankHeadsResponse:
        with self._backend.registry.use(request.model) as model:
            engine, limits = self._backend.engine, self._backend.limits
            large = request.ByteSize() > INLINE_BYTES
            query = await off_loop(lambda: parse_objective(request, limits), large=large)
            check_rankable(query)
            require_objective(model, query)
            require_gradients(model)
            model = await self._backend.registry.with_gradients(model)
            encoder = model.encoder
            interventions = parse_interventions(request.interventions, encoder.shape, model.name)
            reference_texts = await off_loop(lambda: parse_references(request, limits), large=large)
            objective = await self._build(query, model)
            caller = Caller.of(context)
            gates = await caller.gates(engine, model, interventions, reference_texts)
            ranking = await rank_heads(encoder, objective, gates, caller.bulk(engine, encoder))
            return render_ranking(ranking, objective, model)

    async def PruneHeads(self, request: ablation_pb2.PruneHeadsRequest, context: Context) -> ablation_pb2.PruneHeadsResponse:
        registry = self._backend.registry
        with registry.use(request.model) as model:
            heads, model_id, folder = parse_prune(request, model.encoder.shape, model.name)
            await asyncio.to_thread(self._backend.policy.check_folder, folder)
            pruned = await registry.prune(model, model_id, heads, folder, lambda _: None)
            return ablation_pb2.PruneHeadsResponse(model=render_model(registry.find(pruned.name)))

    async def _build(self, query: ObjectiveQuery, model: LoadedModel) -> Objective:
        """Tokenize and check all items."""
        labels = model.encoder.shape.labels
        return await off_loop(lambda: build_objective(query, model.tokenizer, labels, model.name), large=True)


def render(event: Event, model: LoadedModel) -> ablation_pb2.SweepHeadsResponse:
    """One message of the stream."""
    match event:
        case Start():
            return render_start(event)
        case Effect():
            return render_effect(event)
        case Point():
            return render_point(event)
    return render_summary(event, model)
