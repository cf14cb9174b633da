"""Checks, plans, runs and renders TrainCodes."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from bertscope.v1 import representation_codes_pb2 as codes_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2

from bertscope_service.analyses.training_pieces import PiecesPlan, PiecesQuery
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import check_number
from bertscope_service.api.field_checks import TRAIN_CODES_MASK_RATE
from bertscope_service.api.limits import MAX_PROBE_SPANS, RequestLimits
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.representation_probes import parse_memory_bytes
from bertscope_service.api.representation_tuned_lens import read_texts, render_pieces
from bertscope_service.api.requirements import require_states
from bertscope_service.api.tensor_chunks import CHUNK_BYTES
from bertscope_service.encoders.base import ChangesSites, Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.codes_run import (
    CodesOutcome,
    CodesProgress,
    CodesRun,
    CodesSettings,
    TrainedCodes,
    codes_size,
)
from bertscope_service.probing.states import StateSpace

Request = codes_pb2.TrainCodesRequest
Response = codes_pb2.TrainCodesResponse
CODES_OF_A_DIMENSION, ACTIVE = 4, 32
RATE, EPOCHS = 3e-3, 10
Report = Callable[[CodesProgress], None]


@dataclass(frozen=True, slots=True)
class PlannedCodes:
    """A checked TrainCodes request: its texts, how codes are trained, and the memory that it may take, bytes."""

    plan: PiecesPlan
    settings: CodesSettings
    memory_bytes: int


async def train_codes(
    request: Request, backend: Backend, context: Context, space: StateSpace
) -> AsyncGenerator[Response, None]:
    """Answers TrainCodes. Raises InvalidArgument, Unsupported, Overloaded, FailedPrecondition."""
    with backend.registry.use(request.model) as model:
        call, encoder = Call.of(backend, model, context), model.encoder

        def plan(request: Request, model: LoadedModel, limits: RequestLimits) -> PlannedCodes:
            return plan_codes(request, model, space.memory_bytes)

        planned, conditions = await call.read(request, plan)
        pieces, size = planned.plan, codes_size(encoder, planned.settings)
        with space.hold(4 * pieces.pieces * size.hidden, size.bytes, planned.memory_bytes) as on_disk:
            found: list[CodesOutcome] = []

            async def work(report: Report) -> None:
                interventions, means = await call.interventions(conditions), await call.means(conditions)

                def edits(*changes: Change) -> Edits | None:
                    return interventions.at_sites(changes).edits(means)

                losses = _has_losses(encoder, request.layer)
                run = CodesRun(encoder, model.tokenizer, pieces, planned.settings, losses, call.bulk(), edits, report)
                found.append(await run.run(on_disk=on_disk))

            # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
            async with aclosing(progress_of(work, lambda progress: progress.part)) as reports:
                async for progress in reports:
                    yield Response(progress=render_progress(progress))
            (outcome,) = found
            yield Response(report=render_report(planned, outcome, model))
            if request.weights:
                for chunk in render_codes(outcome.codes):
                    yield Response(chunk=chunk)


def plan_codes(request: Request, model: LoadedModel, memory_bytes: int) -> PlannedCodes:
    """Plans the training. `memory_bytes` is the server's setting. Raises InvalidArgument, and Unsupported for a model that
    shows no hidden states, or lacks a mask token that is asked for."""
    require_states(model)
    check_number(request.layer, "layer", "layer", model.encoder.shape.layers + 1, model.name)
    codes = request.codes or CODES_OF_A_DIMENSION * model.encoder.shape.hidden_size
    if request.active > codes:
        message = f"active is {request.active} and there are {codes} codes; use 1 to {codes}"
        raise InvalidArgument("active", message, "ACTIVE_OUT_OF_RANGE", limit=codes)
    train, dev = read_texts(request)
    query = PiecesQuery(
        train,
        dev,
        layers=(request.layer,),
        mask_rate=_mask_rate(request, model),
        truncate=request.truncate,
        seed=request.seed,
        pieces=MAX_PROBE_SPANS,
    )
    settings = CodesSettings(
        codes,
        request.active or min(ACTIVE, codes),
        request.learning_rate if request.HasField("learning_rate") else RATE,
        request.epochs or EPOCHS,
    )
    return PlannedCodes(PiecesPlan(query, model.tokenizer), settings, parse_memory_bytes(request, memory_bytes))


def _mask_rate(request: Request, model: LoadedModel) -> float:
    if model.tokenizer.mask_id is not None:
        return request.mask_rate if request.HasField("mask_rate") else TRAIN_CODES_MASK_RATE
    if request.mask_rate:
        message = f"{model.name} has no mask token, so no pieces can be masked; leave mask_rate out"
        raise Unsupported(message, "NO_MASK_TOKEN", model=model.name)
    return 0.0


def _has_losses(encoder: Encoder, layer: int) -> bool:
    """Returns whether the model predicts masked pieces, and its states can be changed before a layer."""
    changes = isinstance(encoder, ChangesSites) and not encoder.site_refusal(Site.STATE, min(layer, encoder.shape.layers - 1))
    return changes and encoder.capabilities.masked_lm


def render_progress(progress: CodesProgress) -> codes_pb2.TrainCodesProgress:
    stage = probes_pb2.ProbeProgress.STAGE_TRAINING if progress.training else probes_pb2.ProbeProgress.STAGE_STATES
    return codes_pb2.TrainCodesProgress(stage=stage, done=progress.done, total=progress.total)


def render_report(planned: PlannedCodes, outcome: CodesOutcome, model: LoadedModel) -> codes_pb2.TrainCodesReport:
    plan = planned.plan
    report = codes_pb2.TrainCodesReport(
        layer=plan.query.layers[0],
        codes=planned.settings.codes,
        active=planned.settings.active,
        hidden_size=model.encoder.shape.hidden_size,
        train=render_pieces(plan.train),
        dev=render_pieces(plan.dev),
        explained=outcome.explained,
        mean_active=outcome.mean_active,
        dead=outcome.dead,
        threshold=outcome.codes.threshold,
        epochs=planned.settings.epochs,
        on_disk=outcome.on_disk,
        seconds=outcome.seconds,
        provenance=render_provenance(model),
    )
    if outcome.losses is not None:
        loss, coded, mean, zero = outcome.losses
        pieces = sum(len(places) for places, _ in plan.dev.hidden)
        report.losses.CopyFrom(codes_pb2.CodesLosses(loss=loss, coded=coded, mean=mean, zero=zero, pieces=pieces))
    return report


def render_codes(codes: TrainedCodes) -> Iterator[codes_pb2.CodesChunk]:
    """Renders codes in parts."""
    arrays = codes.mean, codes.encoder, codes.biases, codes.decoder
    data = b"".join(np.ascontiguousarray(values, dtype="<f4").tobytes() for values in arrays)
    for index in range(math.ceil(len(data) / CHUNK_BYTES)):
        begin = index * CHUNK_BYTES
        yield codes_pb2.CodesChunk(offset=begin, data=data[begin : begin + CHUNK_BYTES])
