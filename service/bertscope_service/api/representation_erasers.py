"""Checks, plans, runs and renders TrainEraser."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from bertscope.v1 import representation_eraser_pb2 as eraser_pb2
from bertscope.v1 import site_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.probes import DEV_SHARE, ProbePlan, ProbeQuery
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import check_numbers
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.field_checks import TRAIN_ERASER_RANK
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.representation_probe_parts import render_part
from bertscope_service.api.representation_probes import (
    POOLING_NUMBERS,
    POOLINGS,
    parse_memory_bytes,
    read_parts,
    render_progress,
)
from bertscope_service.api.requirements import require_states
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.eraser_run import (
    EraserSettings,
    ErasersTrained,
    EraserTraining,
    LayerEraser,
    Method,
    eraser_bytes,
)
from bertscope_service.probing.erasers import Eraser
from bertscope_service.probing.outcome import Report
from bertscope_service.probing.sizes import state_bytes
from bertscope_service.probing.states import StateSpace

Request = eraser_pb2.TrainEraserRequest
Response = eraser_pb2.TrainEraserResponse
METHODS = {Request.METHOD_UNSPECIFIED: Method.LEACE} | members(Method, Request.Method, "METHOD_")
METHOD_NUMBERS = numbers(Method, Request.Method, "METHOD_")
TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class PlannedErasers:
    """A checked TrainEraser request: its texts, how maps are found, and the memory that it may take, bytes."""

    plan: ProbePlan
    settings: EraserSettings
    memory_bytes: int


async def train_eraser(
    request: Request, backend: Backend, context: Context, space: StateSpace
) -> AsyncGenerator[Response, None]:
    """Answers TrainEraser. Raises InvalidArgument, Unsupported, Overloaded, FailedPrecondition."""
    with backend.registry.use(request.model) as model:
        call = Call.of(backend, model, context)

        def plan(request: Request, model: LoadedModel, limits: RequestLimits) -> PlannedErasers:
            return plan_erasers(request, model, space.memory_bytes)

        planned, conditions = await call.read(request, plan)
        erasers, encoder, classes = planned.plan, model.encoder, len(request.labels)
        needed = eraser_bytes(erasers, encoder, classes, planned.settings)
        with space.hold(state_bytes(erasers, encoder), needed, planned.memory_bytes) as on_disk:
            found: list[ErasersTrained] = []

            async def work(report: Report) -> None:
                edits = await call.edits(conditions)
                training = EraserTraining(encoder, erasers, classes, planned.settings, call.bulk(), edits, report)
                found.append(await training.run(on_disk=on_disk))

            # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
            async with aclosing(progress_of(work, lambda progress: progress.training)) as reports:
                async for progress in reports:
                    yield Response(progress=render_progress(progress))
            (trained,) = found
            for layer, eraser in zip(erasers.query.layers, trained.layers, strict=True):
                yield Response(eraser=render_eraser(layer, eraser))
            yield Response(report=render_report(planned, trained, classes, model))


def plan_erasers(request: Request, model: LoadedModel, memory_bytes: int) -> PlannedErasers:
    """Plans the work. `memory_bytes` is the server's setting. Raises InvalidArgument, and Unsupported for a model that shows no
    hidden states."""
    require_states(model)
    classes = len(request.labels)
    settings = parse_settings(request, model)
    _check_train(request, settings.method)
    train, test = read_parts({"train": request.train, "test": request.test}, classes)
    query = ProbeQuery(
        train,
        [],
        test,
        layers=tuple(sorted(check_numbers(request.layers, "layers", "layer", model.encoder.shape.layers + 1, model.name))),
        pooling=POOLINGS[request.pooling],
        truncate=request.truncate,
        seed=request.seed,
        dev_share=DEV_SHARE if settings.method is Method.INLP else 0.0,
        test_share=TEST_SHARE,
    )
    allowed = parse_memory_bytes(request, memory_bytes)
    return PlannedErasers(ProbePlan(query, model.tokenizer), settings, allowed)


def parse_settings(request: Request, model: LoadedModel) -> EraserSettings:
    """Returns how maps are found. Raises InvalidArgument."""
    method, hidden = METHODS[request.method], model.encoder.shape.hidden_size
    if method is Method.LEACE:
        if request.rank:
            message = "rank goes with METHOD_INLP; LEACE takes as many directions as tell the classes apart, so leave it out"
            raise InvalidArgument("rank", message, "RANK_WITHOUT_INLP")
        return EraserSettings(method, min(len(request.labels) - 1, hidden), request.seed)
    if request.rank > hidden:
        message = f"rank is {request.rank} and states of {model.name} have {hidden} dimensions; use 1 to {hidden}"
        raise InvalidArgument("rank", message, "RANK_OUT_OF_RANGE", limit=hidden)
    return EraserSettings(method, request.rank or min(TRAIN_ERASER_RANK, hidden), request.seed)


def _check_train(request: Request, method: Method) -> None:
    """Raises InvalidArgument for a span that is a pair, and for too few texts to split off what tests and ends training."""
    for name, part in (("train", request.train), ("test", request.test)):
        for index, text in enumerate(part):
            for number, span in enumerate(text.spans):
                if span.HasField("other"):
                    field = f"{name}[{index}].spans[{number}].other"
                    message = f"{field} is set, and erasers are of the states of single spans; leave it out"
                    raise InvalidArgument(field, message, "PAIRS_UNSUPPORTED")
    needed = 1 + (not request.test) + (method is Method.INLP)
    if sum(bool(text.spans) for text in request.train) < needed:
        message = f"train has fewer than {needed} texts with a span, of which some are split off; give more"
        raise InvalidArgument("train", message, "TOO_FEW_TEXTS")


def render_eraser(layer: int, found: LayerEraser) -> eraser_pb2.LayerEraser:
    before, after, by_chance = found.correct
    return eraser_pb2.LayerEraser(
        layer=layer,
        projection=_render_map(found.eraser, found.mean),
        rank=found.eraser.rank,
        correct_before=before,
        correct_after=after,
        correct_random=by_chance,
        random=_render_map(found.random, found.mean),
    )


def _render_map(eraser: Eraser, mean: NDArray[np.float32]) -> site_pb2.Projection | None:
    """Renders a map; None if it changes nothing."""
    if not eraser.rank:
        return None
    left, right = (render_matrix(values.astype(np.float32)) for values in (eraser.left, eraser.right))
    return site_pb2.Projection(left=left, right=right, mean=render_matrix(mean))


def render_report(
    planned: PlannedErasers, trained: ErasersTrained, classes: int, model: LoadedModel
) -> eraser_pb2.EraserReport:
    plan = planned.plan
    majority = int(np.bincount(plan.train.labels, minlength=classes).argmax())
    return eraser_pb2.EraserReport(
        train=render_part(plan.train, classes, majority),
        dev=render_part(plan.dev, classes, majority) if plan.dev.texts else None,
        test=render_part(plan.test, classes, majority),
        majority_label=majority,
        hidden_size=model.encoder.shape.hidden_size,
        pooling=POOLING_NUMBERS[plan.query.pooling],
        method=METHOD_NUMBERS[planned.settings.method],
        on_disk=trained.on_disk,
        seconds=trained.seconds,
        provenance=render_provenance(model),
    )
