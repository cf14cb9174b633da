"""Checks, plans, runs and renders TrainEraser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from bertscope.v1 import representation_eraser_pb2 as eraser_pb2
from bertscope.v1 import site_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.probes import DEV_SHARE, ProbePlan, ProbeQuery
from bertscope_service.api.checks import check_numbers
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.field_checks import TRAIN_ERASER_RANK
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.representation_probe_parts import render_part
from bertscope_service.api.representation_probes import POOLING_NUMBERS, POOLINGS, read_parts
from bertscope_service.api.requirements import require_states
from bertscope_service.api.training import TrainingRpc
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.eraser_run import EraserSettings, EraserTraining, LayerEraser, Method
from bertscope_service.probing.erasers import Eraser

Request = eraser_pb2.TrainEraserRequest
Response = eraser_pb2.TrainEraserResponse
METHODS = {Request.METHOD_UNSPECIFIED: Method.LEACE} | members(Method, Request.Method, "METHOD_")
METHOD_NUMBERS = numbers(Method, Request.Method, "METHOD_")
TEST_SHARE = 0.2


def plan_erasers(request: Request, model: LoadedModel) -> EraserTraining:
    """Plans the work. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
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
    return EraserTraining(ProbePlan(query, model.tokenizer), settings, classes=classes)


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


def render_erasers(training: EraserTraining, found: Sequence[LayerEraser]) -> Iterator[Response]:
    """Renders the eraser of each layer, then the report."""
    for layer, eraser in zip(training.plan.query.layers, found, strict=True):
        yield Response(eraser=render_eraser(layer, eraser))
    yield Response(report=render_report(training))


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


def render_report(training: EraserTraining) -> eraser_pb2.EraserReport:
    plan, classes = training.plan, training.classes
    majority = int(np.bincount(plan.train.labels, minlength=classes).argmax())
    return eraser_pb2.EraserReport(
        train=render_part(plan.train, classes, majority),
        dev=render_part(plan.dev, classes, majority) if plan.dev.texts else None,
        test=render_part(plan.test, classes, majority),
        majority_label=majority,
        pooling=POOLING_NUMBERS[plan.query.pooling],
        method=METHOD_NUMBERS[training.settings.method],
    )


TRAIN_ERASER = TrainingRpc(Response, plan_erasers, render_erasers)
