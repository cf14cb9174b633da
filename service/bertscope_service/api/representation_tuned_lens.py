"""Checks, plans, runs and renders TrainLens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.v1 import representation_tuned_lens_pb2 as tuned_pb2
from bertscope.v1.representation_codes_pb2 import TrainCodesRequest

from bertscope_service.analyses.training_pieces import GivenText, PiecesPart, PiecesPlan, PiecesQuery
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.limits import MAX_PROBE_SPANS, MAX_PROBE_TEXTS
from bertscope_service.api.representation_lens import normalises
from bertscope_service.api.requirements import require_cloze, require_gradients, require_states
from bertscope_service.api.tensor_chunks import float_chunks
from bertscope_service.api.training import TrainingRpc, check_total
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.tuned_lens import LensFits
from bertscope_service.probing.tuned_lens_run import TunedLensSettings, TunedLensTrained, TunedLensTraining

Request = tuned_pb2.TrainLensRequest
Response = tuned_pb2.TrainLensResponse
MASK_RATE = 0.15
RATE = 1e-3
EPOCHS, PATIENCE = 20, 4


def plan_tuned_lens(request: Request, model: LoadedModel) -> TunedLensTraining:
    """Plans the training. Raises InvalidArgument, and Unsupported for a model without a masked-LM head or gradients, or that
    shows no hidden states."""
    require_cloze(model)
    require_states(model)
    require_gradients(model)
    last = model.encoder.shape.layers
    train, dev = read_texts(request)
    query = PiecesQuery(
        train,
        dev,
        layers=(*sorted(check_numbers(request.layers, "layers", "layer", last, model.name)), last),
        mask_rate=request.mask_rate if request.HasField("mask_rate") else MASK_RATE,
        truncate=request.truncate,
        seed=request.seed,
        pieces=MAX_PROBE_SPANS,
    )
    settings = TunedLensSettings(
        normalises(request.normalisation, model),
        request.learning_rate if request.HasField("learning_rate") else RATE,
        request.max_epochs or EPOCHS,
        request.patience or PATIENCE,
    )
    return TunedLensTraining(PiecesPlan(query, model.tokenizer), settings, weights=request.weights)


def read_texts(request: Request | TrainCodesRequest) -> list[list[GivenText]]:
    """Returns the texts of both parts, checked."""
    parts = {"train": request.train, "dev": request.dev}
    check_total(parts, "texts", sum(map(len, parts.values())), MAX_PROBE_TEXTS)

    def read(given: Sequence[common_pb2.TextInput], name: str) -> list[GivenText]:
        fields = [f"{name}[{index}]" for index in range(len(given))]
        return [GivenText(field, read_text(text)) for field, text in zip(fields, given, strict=True)]

    return [read(part, name) for name, part in parts.items()]


def render_tuned_lens(training: TunedLensTraining, trained: TunedLensTrained) -> Iterator[Response]:
    """Renders the report, then each layer's map in parts if they are asked for."""
    plan, final = training.plan, training.settings.normalise
    report = tuned_pb2.TrainLensReport(
        train=render_pieces(plan.train),
        dev=render_pieces(plan.dev),
        normalisation=lens_pb2.LENS_NORMALISATION_FINAL if final else lens_pb2.LENS_NORMALISATION_NONE,
        last_layer=training.encoder.shape.layers,
        epochs=trained.epochs,
    )
    for index, layer in enumerate(plan.query.layers[:-1]):
        before, after = (_render_fit(fits, index) for fits in (trained.before, trained.after))
        report.layers.add(layer=layer, before=before, after=after, steps=int(trained.steps[index]))
    yield Response(report=report)
    if trained.maps is not None:
        for layer, values in zip(plan.query.layers[:-1], trained.maps, strict=True):
            for offset, data in float_chunks(values):
                yield Response(chunk=tuned_pb2.TranslatorChunk(layer=layer, offset=offset, data=data))


def render_pieces(part: PiecesPart) -> tuned_pb2.LensPart:
    return tuned_pb2.LensPart(texts=part.texts, pieces=part.pieces, masked_pieces=part.masked, truncated_tokens=part.truncated)


def _render_fit(fits: LensFits, index: int) -> tuned_pb2.LensFit:
    return tuned_pb2.LensFit(divergence=float(fits.divergence[index]), agreeing=int(fits.agreeing[index]))


TRAIN_LENS = TrainingRpc(Response, plan_tuned_lens, render_tuned_lens, best="best_dev_divergence", gradients=True)
