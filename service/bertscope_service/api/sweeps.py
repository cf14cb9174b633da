"""Requests and replies of AblationService; its objectives are in api/objectives.py."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import ablation_pb2

from bertscope_service.ablation.sweep_plan import Greedy, Order, SweepQuery, every_head, every_layer, head_count
from bertscope_service.analyses.objectives.build import ObjectiveQuery
from bertscope_service.api.checks import parse_layer_heads, read_memory_bytes
from bertscope_service.api.enums import members
from bertscope_service.api.field_checks import GREEDY_STEP
from bertscope_service.api.intervals import METRICS, parse_bootstrap
from bertscope_service.api.interventions import parse_change
from bertscope_service.encoders.base import HeadSet, Shape
from bertscope_service.errors import InvalidArgument

Sweep = ablation_pb2.SweepHeadsRequest

SCOPES = {
    Sweep.SCOPE_UNSPECIFIED: every_head,
    Sweep.SCOPE_EVERY_HEAD: every_head,
    Sweep.SCOPE_EVERY_LAYER: every_layer,
}
ORDERS = {0: Order.EFFECT} | members(Order, ablation_pb2.Greedy.Order, "ORDER_")


def parse_sweep(
    request: ablation_pb2.SweepHeadsRequest,
    objective: ObjectiveQuery,
    shape: Shape,
    model: str,
    memory_bytes: int,
) -> SweepQuery:
    """Converts the request without its interventions; a curve's order depends on the objective.

    `memory_bytes` is the server's setting. Raises InvalidArgument.
    """
    mode, scale = parse_change(request.mode, request.scale if request.HasField("scale") else None)
    sets = _sets(request, shape, model)
    greedy = _greedy(request.greedy, objective, len(sets)) if request.HasField("greedy") else None
    done = _done(request.done, sets, greedy, shape, model)
    gone = set(done)
    return SweepQuery(
        tuple(heads for heads in sets if heads not in gone),
        mode,
        scale,
        parse_bootstrap(request.bootstrap, "bootstrap"),
        read_memory_bytes(request, memory_bytes),
        greedy,
        done,
    )


def check_rankable(objective: ObjectiveQuery) -> None:
    """Raises InvalidArgument for an objective without a loss to differentiate."""
    if not objective.has_loss:
        kinds = "masked_lm_loss, cloze, classification, token_classification, regression, multi_label or question_answering"
        message = f"objective has no loss to differentiate; set {kinds}, or call SweepHeads, which ranks by any score"
        raise InvalidArgument("objective", message, "OBJECTIVE_WITHOUT_LOSS")


def _sets(request: ablation_pb2.SweepHeadsRequest, shape: Shape, model: str) -> tuple[HeadSet, ...]:
    every = SCOPES[request.scope]
    if not request.sets:
        return _existing(every(shape.layers, shape.heads), shape, model)
    if request.scope:
        raise InvalidArgument("scope", "scope and sets exclude each other; set one of them", "SCOPE_WITH_SETS")
    places: dict[HeadSet, int] = {}
    for index, entry in enumerate(request.sets):
        field = f"sets[{index}]"
        heads = parse_layer_heads(entry.layers, f"{field}.layers", shape, model)
        if heads in places:
            message = f"{field} has the same heads as sets[{places[heads]}]; list each set once"
            raise InvalidArgument(field, message, "DUPLICATE")
        places[heads] = index
    return tuple(places)


def _done(
    entries: Sequence[ablation_pb2.HeadSet], sets: Sequence[HeadSet], greedy: Greedy | None, shape: Shape, model: str
) -> tuple[HeadSet, ...]:
    """Returns the sets that an earlier call has measured or, for a curve, removed, in the order given."""
    left = set(sets)
    most = len(sets) if greedy is None else greedy.max_removed
    if len(entries) > most:
        message = f"done has {len(entries)} entries and this sweep is over after {most}; give the fields of the earlier call"
        raise InvalidArgument("done", message, "TOO_MANY_DONE", limit=most)
    found = []
    for index, entry in enumerate(entries):
        field = f"done[{index}]"
        heads = parse_layer_heads(entry.layers, f"{field}.layers", shape, model)
        if heads not in left:
            twice = heads in found
            message = f"{field} is listed twice" if twice else f"{field} is none of the sets that this sweep measures"
            raise InvalidArgument(
                field, f"{message}; give what the earlier call measured", "DUPLICATE" if twice else "UNKNOWN_SET"
            )
        left.remove(heads)
        found.append(heads)
    return tuple(found)


def _existing(sets: Sequence[HeadSet], shape: Shape, model: str) -> tuple[HeadSet, ...]:
    """Returns the sets that have a head which was not pruned away."""
    pruned = {(layer, head) for layer, heads in shape.pruned.items() for head in heads}
    left = tuple(heads for heads in sets if head_count([heads], pruned))
    if not left:
        raise InvalidArgument("scope", f"{model} has no heads left to change; use another model", "NO_HEADS")
    return left


def _greedy(given: ablation_pb2.Greedy, objective: ObjectiveQuery, sets: int) -> Greedy:
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
    return Greedy(order, given.step or GREEDY_STEP, given.max_removed or sets, metrics.get(given.metric))
