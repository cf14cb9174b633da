"""Checks, plans, runs and renders TrainCodes."""

from __future__ import annotations

from collections.abc import Iterator

from bertscope.v1 import representation_codes_pb2 as codes_pb2

from bertscope_service.analyses.training_pieces import PiecesPlan, PiecesQuery
from bertscope_service.api.checks import check_number
from bertscope_service.api.field_checks import TRAIN_CODES_MASK_RATE
from bertscope_service.api.limits import MAX_PROBE_SPANS
from bertscope_service.api.representation_tuned_lens import read_texts, render_pieces
from bertscope_service.api.requirements import require_states
from bertscope_service.api.tensor_chunks import float_chunks
from bertscope_service.api.training import TrainingRpc
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.codes_run import CodesOutcome, CodesRun, CodesSettings

Request = codes_pb2.TrainCodesRequest
Response = codes_pb2.TrainCodesResponse
CODES_OF_A_DIMENSION, ACTIVE = 4, 32
RATE, EPOCHS = 3e-3, 10


def plan_codes(request: Request, model: LoadedModel) -> CodesRun:
    """Plans the training. Raises InvalidArgument, and Unsupported for a model that shows no hidden states, or lacks a mask
    token that is asked for."""
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
    return CodesRun(PiecesPlan(query, model.tokenizer), settings, weights=request.weights)


def _mask_rate(request: Request, model: LoadedModel) -> float:
    if model.tokenizer.mask_id is not None:
        return request.mask_rate if request.HasField("mask_rate") else TRAIN_CODES_MASK_RATE
    if request.mask_rate:
        message = f"{model.name} has no mask token, so no pieces can be masked; leave mask_rate out"
        raise Unsupported(message, "NO_MASK_TOKEN", model=model.name)
    return 0.0


def render_codes(run: CodesRun, outcome: CodesOutcome) -> Iterator[Response]:
    """Renders the report, then the codes in parts if they are asked for."""
    plan, settings, codes = run.plan, run.settings, outcome.codes
    report = codes_pb2.TrainCodesReport(
        layer=plan.query.layers[0],
        codes=settings.codes,
        active=settings.active,
        train=render_pieces(plan.train),
        dev=render_pieces(plan.dev),
        explained=outcome.explained,
        mean_active=outcome.mean_active,
        dead=outcome.dead,
        threshold=codes.threshold,
        epochs=settings.epochs,
    )
    if outcome.losses is not None:
        loss, coded, mean, zero = outcome.losses
        pieces = sum(len(places) for places, _ in plan.dev.hidden)
        report.losses.CopyFrom(codes_pb2.CodesLosses(loss=loss, coded=coded, mean=mean, zero=zero, pieces=pieces))
    yield Response(report=report)
    if run.weights:
        for offset, data in float_chunks(codes.mean, codes.encoder, codes.biases, codes.decoder):
            yield Response(chunk=codes_pb2.CodesChunk(offset=offset, data=data))


TRAIN_CODES = TrainingRpc(Response, plan_codes, render_codes)
