"""Requests and replies of AblationService; its objectives are in messages/objectives.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from bertscope.v1 import ablation_pb2, common_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.ablation import (
    Bootstrap,
    Effect,
    Greedy,
    HeadSet,
    Metric,
    MetricEffect,
    Mode,
    Order,
    Point,
    Start,
    Summary,
    SweepQuery,
    every_head,
    every_layer,
    head_count,
)
from bertscope_service.analyses.objective import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.jobs.ranking import Ranking
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages import limits as bounds
from bertscope_service.messages.common import (
    check_reference_texts,
    check_text,
    parse_change,
    parse_layer_heads,
    render_provenance,
)
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.messages.model import check_folder, check_model_id
from bertscope_service.messages.objectives import check_items

Response = ablation_pb2.SweepHeadsResponse
Sweep = ablation_pb2.SweepHeadsRequest

METRICS = {
    Metric.LOSS: ablation_pb2.METRIC_LOSS,
    Metric.ACCURACY: ablation_pb2.METRIC_ACCURACY,
    Metric.RECIPROCAL_RANK: ablation_pb2.METRIC_RECIPROCAL_RANK,
    Metric.DIVERGENCE: ablation_pb2.METRIC_DIVERGENCE,
}
SCOPES = {
    Sweep.SCOPE_UNSPECIFIED: every_head,
    Sweep.SCOPE_EVERY_HEAD: every_head,
    Sweep.SCOPE_EVERY_LAYER: every_layer,
}
ORDERS = {
    ablation_pb2.Greedy.ORDER_UNSPECIFIED: Order.EFFECT,
    ablation_pb2.Greedy.ORDER_EFFECT: Order.EFFECT,
    ablation_pb2.Greedy.ORDER_IMPORTANCE: Order.IMPORTANCE,
    ablation_pb2.Greedy.ORDER_BEST_REMAINING: Order.BEST_REMAINING,
}


def parse_sweep(
    request: ablation_pb2.SweepHeadsRequest,
    objective: ObjectiveQuery,
    shape: Shape,
    limits: RequestLimits,
    model: str,
    memory_bytes: int,
) -> SweepQuery:
    """All but the objective, which says what a curve may go by, and the interventions. `memory_bytes` is the server's setting.

    Raises InvalidArgument.
    """
    mode, scale = parse_change(request.mode, request.scale if request.HasField("scale") else None)
    sets = _sets(request, shape, model)
    return SweepQuery(
        sets,
        mode,
        scale,
        parse_references(request, limits, needed=mode is Mode.MEAN),
        parse_bootstrap(request.bootstrap, "bootstrap"),
        _memory_bytes(request, memory_bytes),
        _greedy(request.greedy, objective, len(sets)) if request.HasField("greedy") else None,
    )


def parse_references(
    request: ablation_pb2.SweepHeadsRequest | ablation_pb2.RankHeadsRequest, limits: RequestLimits, *, needed: bool = False
) -> tuple[str, ...]:
    """Texts to take mean contexts over: there if, and only if, they are `needed` or an intervention's mode is MODE_MEAN.

    Raises InvalidArgument.
    """
    texts, field = request.reference_texts, "reference_texts"
    needed = needed or any(entry.mode == common_pb2.HeadIntervention.MODE_MEAN for entry in request.interventions)
    check_reference_texts(texts, needed=needed)
    if needed:
        check_items(texts, field)
    return tuple(check_text(text, f"{field}[{index}]", limits) for index, text in enumerate(texts))


def check_draws(bootstrap: Bootstrap, items: int, field: str = "bootstrap") -> None:
    """Raise InvalidArgument for intervals that would take seconds each; `field` leads to the message."""
    if bootstrap.resamples * items > bounds.MAX_DRAWS:
        most = bounds.MAX_DRAWS // items
        message = f"{field}.resamples is {bootstrap.resamples}; with {items} items use at most {most}"
        raise InvalidArgument(f"{field}.resamples", message, "TOO_MANY_DRAWS", limit=most)


def check_rankable(objective: ObjectiveQuery) -> None:
    """Raise InvalidArgument for an objective without a loss to take the gradient of."""
    if not objective.has_loss:
        message = "objective has no loss, which gradients are taken of; set masked_lm_loss, cloze or classification"
        raise InvalidArgument("objective", message, "OBJECTIVE_WITHOUT_LOSS")


def parse_prune(
    request: ablation_pb2.PruneHeadsRequest, shape: Shape, model: str
) -> tuple[Mapping[int, tuple[int, ...]], str, Path | None]:
    """The heads to remove, by layer; the id of the new model; the folder to save it in. Raises InvalidArgument."""
    if not request.heads:
        raise InvalidArgument("heads", "heads is empty; name the heads to remove", "NO_HEADS")
    heads = parse_layer_heads(request.heads, "heads", shape, model)
    return dict(heads), check_model_id(request.model_id), check_folder(request.folder)


def _sets(request: ablation_pb2.SweepHeadsRequest, shape: Shape, model: str) -> tuple[HeadSet, ...]:
    if request.scope not in SCOPES:
        message = f"scope is {request.scope}; set SCOPE_EVERY_HEAD or SCOPE_EVERY_LAYER"
        raise InvalidArgument("scope", message, "UNKNOWN_SCOPE")
    if not request.sets:
        return _existing(SCOPES[request.scope](shape.layers, shape.heads), shape, model)
    if request.scope:
        raise InvalidArgument("scope", "scope and sets exclude each other; set one of them", "SCOPE_WITH_SETS")
    if len(request.sets) > bounds.MAX_SETS:
        message = f"sets has {len(request.sets)} entries and one call takes {bounds.MAX_SETS}; send them in parts"
        raise InvalidArgument("sets", message, "TOO_MANY_SETS", limit=bounds.MAX_SETS)
    places: dict[HeadSet, int] = {}
    for index, entry in enumerate(request.sets):
        field = f"sets[{index}]"
        if not entry.layers:
            raise InvalidArgument(f"{field}.layers", f"{field}.layers is empty; name at least one layer", "EMPTY_SET")
        heads = parse_layer_heads(entry.layers, f"{field}.layers", shape, model)
        if heads in places:
            message = f"{field} has the same heads as sets[{places[heads]}]; list each set once"
            raise InvalidArgument(field, message, "DUPLICATE")
        places[heads] = index
    return tuple(places)


def _existing(sets: Sequence[HeadSet], shape: Shape, model: str) -> tuple[HeadSet, ...]:
    """Sets that have a head which was not pruned away."""
    pruned = {(layer, head) for layer, heads in shape.pruned.items() for head in heads}
    left = tuple(heads for heads in sets if head_count([heads], pruned))
    if not left:
        raise InvalidArgument("scope", f"{model} has no heads left to change; use another model", "NO_HEADS")
    return left


def parse_bootstrap(given: ablation_pb2.Bootstrap, field: str) -> Bootstrap:
    """Raises InvalidArgument; `field` leads to the message."""
    usual = Bootstrap()
    resamples = given.resamples if given.HasField("resamples") else usual.resamples
    if not bounds.MIN_RESAMPLES <= resamples <= bounds.MAX_RESAMPLES:
        message = f"{field}.resamples is {resamples}; use {bounds.MIN_RESAMPLES} to {bounds.MAX_RESAMPLES}"
        raise InvalidArgument(f"{field}.resamples", message, "RESAMPLES_OUT_OF_RANGE")
    confidence = given.confidence if given.HasField("confidence") else usual.confidence
    if not bounds.MIN_CONFIDENCE <= confidence <= bounds.MAX_CONFIDENCE:
        message = f"{field}.confidence is {confidence}; use {bounds.MIN_CONFIDENCE} to {bounds.MAX_CONFIDENCE}"
        raise InvalidArgument(f"{field}.confidence", message, "CONFIDENCE_OUT_OF_RANGE")
    return Bootstrap(resamples, given.seed, confidence)


def _memory_bytes(request: ablation_pb2.SweepHeadsRequest, most: int) -> int:
    if not request.HasField("memory_bytes"):
        return most
    if not 1 <= request.memory_bytes <= most:
        message = f"memory_bytes is {request.memory_bytes} and this server allows 1 to {most}; leave it out to take all of that"
        raise InvalidArgument("memory_bytes", message, "MEMORY_OUT_OF_RANGE", limit=most)
    return request.memory_bytes


def _greedy(given: ablation_pb2.Greedy, objective: ObjectiveQuery, sets: int) -> Greedy:
    if given.order not in ORDERS:
        message = f"greedy.order is {given.order}; set ORDER_EFFECT, ORDER_IMPORTANCE or ORDER_BEST_REMAINING"
        raise InvalidArgument("greedy.order", message, "UNKNOWN_ORDER")
    order = ORDERS[given.order]
    if order is Order.IMPORTANCE and not objective.has_loss:
        message = "greedy.order is ORDER_IMPORTANCE and the objective has no loss; set ORDER_EFFECT or ORDER_BEST_REMAINING"
        raise InvalidArgument("greedy.order", message, "OBJECTIVE_WITHOUT_LOSS")
    for field, number in (("greedy.step", given.step), ("greedy.max_removed", given.max_removed)):
        if number > sets:
            message = f"{field} is {number} and there are {sets} sets to remove; use 1 to {sets}"
            raise InvalidArgument(field, message, f"{field.partition('.')[2].upper()}_OUT_OF_RANGE")
    metrics = {METRICS[metric]: metric for metric in objective.metrics}
    if given.metric and given.metric not in metrics:
        names = ", ".join(ablation_pb2.Metric.Name(number) for number in metrics)
        asked = ablation_pb2.Metric.Name(given.metric) if given.metric in ablation_pb2.Metric.values() else given.metric
        message = f"greedy.metric is {asked}, which this objective does not measure; set one of {names}"
        raise InvalidArgument("greedy.metric", message, "UNKNOWN_METRIC")
    return Greedy(order, given.step or 1, given.max_removed or sets, metrics.get(given.metric))


def render_start(start: Start) -> Response:
    return Response(
        start=ablation_pb2.SweepStart(
            baseline=[ablation_pb2.MetricScore(metric=METRICS[metric], score=score) for metric, score in start.baseline],
            total=start.total,
            items=start.items,
            skipped_items=start.skipped_items,
            truncated_texts=start.truncated_texts,
            predicted_pieces=start.predicted_pieces,
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
    return Response(
        summary=ablation_pb2.SweepSummary(
            helped=summary.helped,
            hurt=summary.hurt,
            layer_passes=summary.layer_passes,
            full_layer_passes=summary.full_layer_passes,
            seconds=summary.seconds,
            provenance=render_provenance(model),
        )
    )


def render_ranking(ranking: Ranking, objective: Objective, model: LoadedModel) -> ablation_pb2.RankHeadsResponse:
    return ablation_pb2.RankHeadsResponse(
        importance=_render_matrix(ranking.importance),
        gradient=_render_matrix(ranking.gradient),
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
        )
        for effect in effects
    ]


def _render_matrix(values: NDArray[np.float64]) -> common_pb2.Tensor:
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=values.shape, data=values.astype("<f4").tobytes())
