"""The AblationService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bertscope.v1 import ablation_pb2, ablation_pb2_grpc, common_pb2
from bertscope.v1 import ablation_sites_pb2 as sites_pb2

from bertscope_service.ablation.evaluation import Change, Evaluation
from bertscope_service.ablation.path_sweep import PathSweep
from bertscope_service.ablation.ranking import Ranking, rank_heads
from bertscope_service.ablation.site_effects import SiteStart
from bertscope_service.ablation.site_sweep import SiteSweep
from bertscope_service.ablation.sweep import Sweep
from bertscope_service.ablation.sweep_plan import Effect, Event, Order, Point, Start, Summary, SweepQuery
from bertscope_service.analyses.metrics import MetricEffect
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.api.answer import INLINE_REPLY_BYTES, Backend, Call, Context
from bertscope_service.api.checks import check_folder, check_model_id, parse_layer_heads
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.intervals import METHODS, METRICS, NO_INTERVALS, check_draws, render_bootstrap
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.model_rendering import render_model
from bertscope_service.api.objectives import build, parse_objective
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_gradients, require_objective, require_observable
from bertscope_service.api.site_runs import site_changes
from bertscope_service.api.site_sweeps import needs_references, plan_site_sweep, render_site_event
from bertscope_service.api.sweeps import check_rankable, parse_sweep
from bertscope_service.encoders.base import HeadSet, Shape
from bertscope_service.models.loaded import LoadedModel

Response = ablation_pb2.SweepHeadsResponse


class AblationServicer(ablation_pb2_grpc.AblationServiceServicer):
    """Serves AblationService: measures the importance of heads and removes unimportant ones."""

    def __init__(self, backend: Backend, memory_bytes: int) -> None:
        """Keeps the backend. `memory_bytes`: maximum memory for a sweep's shared states."""
        self._backend = backend
        self._memory_bytes = memory_bytes

    async def SweepHeads(self, request: ablation_pb2.SweepHeadsRequest, context: Context) -> AsyncIterator[Response]:
        with self._backend.registry.use(request.model) as model:
            sweep = await self._sweep(request, Call.of(self._backend, model, context))
            # Closed explicitly: queued rows must not wait for garbage collection after the client is gone.
            async with aclosing(sweep.events()) as events:
                async for event in events:
                    yield render(event, model)

    async def _sweep(self, request: ablation_pb2.SweepHeadsRequest, call: Call) -> Sweep:
        plan = partial(plan_sweep, memory_bytes=self._memory_bytes)
        means = request.mode == common_pb2.HeadIntervention.MODE_MEAN
        (query, objective), conditions = await call.read(request, plan, means=means)
        change = Change(query.mode, query.scale, await call.means(conditions, needed=means))
        encoder, gradients = call.model.encoder, None
        evaluation = await call.compute(partial(Evaluation, encoder, objective, call.bulk(), change, query.memory_bytes))
        if query.greedy is not None and query.greedy.order is Order.IMPORTANCE:
            gradients = (await self._backend.registry.with_gradients(call.model)).encoder
        return Sweep(evaluation, query, await call.interventions(conditions), gradients)

    async def SweepSites(
        self, request: sites_pb2.SweepSitesRequest, context: Context
    ) -> AsyncIterator[sites_pb2.SweepSitesResponse]:
        with self._backend.registry.use(request.model) as model:
            call = Call.of(self._backend, model, context)
            read = partial(plan_site_sweep, memory_bytes=self._memory_bytes)
            plan, conditions = await call.read(request, read, means=needs_references(request))
            self._backend.reply_memory.hold(call.client, plan.reply_bytes)
            edits = await call.edits(conditions)
            plan.give(await site_changes(call, [one.planned for one in plan.units], conditions.references))
            kind = PathSweep if request.HasField("paths") else SiteSweep
            sweep = await call.compute(partial(kind, model.encoder, plan, call.bulk(), edits))
            async with aclosing(sweep.events()) as events:
                async for event in events:
                    large = isinstance(event, SiteStart) and plan.reply_bytes > INLINE_REPLY_BYTES
                    yield await call.compute(partial(render_site_event, event, plan, model), large=large)

    async def RankHeads(self, request: ablation_pb2.RankHeadsRequest, context: Context) -> ablation_pb2.RankHeadsResponse:
        registry = self._backend.registry
        with registry.use(request.model) as model:
            objective, conditions = await Call.of(self._backend, model, context).read(request, plan_ranking)
            call = Call.of(self._backend, await registry.with_gradients(model), context)
            ranking = await rank_heads(call.model.encoder, objective, await call.edits(conditions), call.bulk())
            return render_ranking(ranking, objective, call.model)

    async def PruneHeads(self, request: ablation_pb2.PruneHeadsRequest, context: Context) -> ablation_pb2.PruneHeadsResponse:
        registry = self._backend.registry
        with registry.use(request.model) as model:
            check_fields(request, self._backend.limits)
            heads, model_id, folder = parse_prune(request, model.encoder.shape, model.name)
            await asyncio.to_thread(self._backend.policy.check_folder, folder)
            pruned = await registry.prune(model, model_id, heads, folder, lambda _: None)
            return ablation_pb2.PruneHeadsResponse(model=render_model(registry.find(pruned.name)))


def plan_sweep(
    request: ablation_pb2.SweepHeadsRequest, model: LoadedModel, limits: RequestLimits, memory_bytes: int
) -> tuple[SweepQuery, Objective]:
    """Returns a sweep's query and its objective. `memory_bytes`: see AblationServicer.

    Raises InvalidArgument, and Unsupported for a model without the head that the objective needs, or without attention.
    """
    asked = parse_objective(request)
    require_objective(model, asked)
    require_observable(model)
    query = parse_sweep(request, asked, model.encoder.shape, model.name, memory_bytes)
    objective = build(asked, model)
    check_draws(query.bootstrap, objective.items)
    return query, objective


def plan_ranking(request: ablation_pb2.RankHeadsRequest, model: LoadedModel, limits: RequestLimits) -> Objective:
    """Returns the objective whose loss is differentiated. Raises InvalidArgument, and Unsupported for a model without
    gradients."""
    asked = parse_objective(request)
    check_rankable(asked)
    require_objective(model, asked)
    require_gradients(model)
    return build(asked, model)


def parse_prune(
    request: ablation_pb2.PruneHeadsRequest, shape: Shape, model: str
) -> tuple[Mapping[int, tuple[int, ...]], str, Path | None]:
    """Returns the heads to remove, by layer, the id of the new model, and its folder. Raises InvalidArgument."""
    heads = parse_layer_heads(request.heads, "heads", shape, model)
    return dict(heads), check_model_id(request.model_id), check_folder(request.folder)


def render(event: Event, model: LoadedModel) -> Response:
    """Renders one message of the stream."""
    match event:
        case Start():
            return render_start(event, model)
        case Effect():
            return render_effect(event)
        case Point():
            return render_point(event)
    return render_summary(event, model)


def render_start(start: Start, model: LoadedModel) -> Response:
    return Response(
        start=ablation_pb2.SweepStart(
            baseline=[ablation_pb2.MetricScore(metric=METRICS[metric], score=score) for metric, score in start.baseline],
            total=start.total,
            items=start.items,
            skipped_items=start.skipped_items,
            truncated_texts=start.truncated_texts,
            predicted_pieces=start.predicted_pieces,
            bootstrap=render_bootstrap(start.bootstrap),
            provenance=render_provenance(model),
            done=start.done,
        )
    )


def render_effect(effect: Effect) -> Response:
    return Response(effect=ablation_pb2.HeadEffect(heads=_render_set(effect.heads), metrics=_render_metrics(effect.metrics)))


def render_point(point: Point) -> Response:
    return Response(
        point=ablation_pb2.CurvePoint(
            added=[_render_set(heads) for heads in point.added],
            share_removed=point.share_removed,
            metrics=_render_metrics(point.metrics),
        )
    )


def render_summary(summary: Summary, model: LoadedModel) -> Response:
    return Response(summary=ablation_pb2.SweepSummary(**asdict(summary), provenance=render_provenance(model)))


def render_ranking(ranking: Ranking, objective: Objective, model: LoadedModel) -> ablation_pb2.RankHeadsResponse:
    return ablation_pb2.RankHeadsResponse(
        importance=render_matrix(ranking.importance),
        gradient=render_matrix(ranking.gradient),
        items=objective.items,
        skipped_items=objective.skipped,
        loss=ranking.loss,
        provenance=render_provenance(model),
    )


def _render_set(heads: HeadSet) -> ablation_pb2.HeadSet:
    return ablation_pb2.HeadSet(layers=[common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in heads])


def _render_metrics(effects: Sequence[MetricEffect]) -> list[ablation_pb2.MetricEffect]:
    return [
        ablation_pb2.MetricEffect(
            metric=METRICS[effect.metric],
            score=effect.score,
            difference=effect.difference,
            low=effect.low,
            high=effect.high,
            mcnemar_p=effect.mcnemar_p,
            interval_method=METHODS[effect.method],
            no_interval=NO_INTERVALS[effect.no_interval],
        )
        for effect in effects
    ]
