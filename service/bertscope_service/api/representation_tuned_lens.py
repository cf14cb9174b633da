"""Checks, plans, runs and renders TrainLens."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import numpy as np
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1 import representation_tuned_lens_pb2 as tuned_pb2
from bertscope.v1.representation_codes_pb2 import TrainCodesRequest
from numpy.typing import NDArray

from bertscope_service.analyses.training_pieces import GivenText, PiecesPart, PiecesPlan, PiecesQuery
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.limits import MAX_PROBE_SPANS, MAX_PROBE_TEXTS, RequestLimits
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.representation_lens import normalises
from bertscope_service.api.representation_probes import parse_memory_bytes
from bertscope_service.api.requirements import require_cloze, require_gradients, require_states
from bertscope_service.api.tensor_chunks import CHUNK_BYTES
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.states import StateSpace
from bertscope_service.probing.tuned_lens import LensFits
from bertscope_service.probing.tuned_lens_run import (
    TunedLensProgress,
    TunedLensSettings,
    TunedLensTrained,
    TunedLensTraining,
    lens_size,
)

Request = tuned_pb2.TrainLensRequest
Response = tuned_pb2.TrainLensResponse
MASK_RATE = 0.15
RATE = 1e-3
EPOCHS, PATIENCE = 20, 4
Report = Callable[[TunedLensProgress], None]


@dataclass(frozen=True, slots=True)
class PlannedLens:
    """A checked TrainLens request: its texts, how maps are trained, and the memory that it may take, bytes."""

    plan: PiecesPlan
    settings: TunedLensSettings
    memory_bytes: int


async def train_lens(request: Request, backend: Backend, context: Context, space: StateSpace) -> AsyncGenerator[Response, None]:
    """Answers TrainLens. Raises InvalidArgument, Unsupported, Overloaded, FailedPrecondition."""
    with backend.registry.use(request.model) as model:

        def plan(request: Request, model: LoadedModel, limits: RequestLimits) -> PlannedLens:
            return plan_tuned_lens(request, model, limits, space.memory_bytes)

        planned, conditions = await Call.of(backend, model, context).read(request, plan)
        # A model that runs in ONNX is read once more, with gradients.
        call = Call.of(backend, await backend.registry.with_gradients(model), context)
        lens, encoder = planned.plan, call.model.encoder
        size = lens_size(lens, encoder)
        with space.hold(4 * lens.pieces * (size.layers + 1) * size.hidden, size.bytes, planned.memory_bytes) as on_disk:
            found: list[TunedLensTrained] = []

            async def work(report: Report) -> None:
                edits = await call.edits(conditions)
                training = TunedLensTraining(encoder, lens, planned.settings, call.bulk(), edits, report)
                found.append(await training.run(on_disk=on_disk, weights=request.weights))

            # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
            async with aclosing(progress_of(work, lambda progress: progress.training)) as reports:
                async for progress in reports:
                    yield Response(progress=render_progress(progress))
            (trained,) = found
            yield Response(report=await call.compute(partial(render_report, planned, trained, call.model)))
            for index, layer in enumerate(lens.query.layers[:-1] if trained.maps is not None else ()):
                for chunk in render_map(layer, trained.maps[index]):  # type: ignore[index]
                    yield Response(chunk=chunk)


def plan_tuned_lens(request: Request, model: LoadedModel, limits: RequestLimits, memory_bytes: int) -> PlannedLens:
    """Plans the training. `memory_bytes` is the server's setting. Raises InvalidArgument, and Unsupported for a model without a
    masked-LM head or gradients, or that shows no hidden states."""
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
    allowed = parse_memory_bytes(request, memory_bytes)
    return PlannedLens(PiecesPlan(query, model.tokenizer), settings, allowed)


def read_texts(request: Request | TrainCodesRequest) -> list[list[GivenText]]:
    """Returns the texts of both parts, checked."""
    texts = len(request.train) + len(request.dev)
    if texts > MAX_PROBE_TEXTS:
        message = f"train and dev have {texts} texts together and one call takes {MAX_PROBE_TEXTS}; leave some out"
        raise InvalidArgument("train", message, "TOO_MANY_TEXTS", limit=MAX_PROBE_TEXTS)

    def read(given: Sequence[common_pb2.TextInput], name: str) -> list[GivenText]:
        fields = [f"{name}[{index}]" for index in range(len(given))]
        return [GivenText(field, read_text(text)) for field, text in zip(fields, given, strict=True)]

    return [read(request.train, "train"), read(request.dev, "dev")]


def render_progress(progress: TunedLensProgress) -> tuned_pb2.TrainLensProgress:
    stage = probes_pb2.ProbeProgress.STAGE_TRAINING if progress.training else probes_pb2.ProbeProgress.STAGE_STATES
    return tuned_pb2.TrainLensProgress(
        stage=stage, done=progress.done, total=progress.total, best_dev_divergence=progress.divergence
    )


def render_report(planned: PlannedLens, trained: TunedLensTrained, model: LoadedModel) -> tuned_pb2.TrainLensReport:
    final = planned.settings.normalise
    report = tuned_pb2.TrainLensReport(
        train=render_pieces(planned.plan.train),
        dev=render_pieces(planned.plan.dev),
        normalisation=lens_pb2.LENS_NORMALISATION_FINAL if final else lens_pb2.LENS_NORMALISATION_NONE,
        hidden_size=model.encoder.shape.hidden_size,
        last_layer=model.encoder.shape.layers,
        epochs=trained.epochs,
        on_disk=trained.on_disk,
        seconds=trained.seconds,
        provenance=render_provenance(model),
    )
    for index, layer in enumerate(planned.plan.query.layers[:-1]):
        before, after = (_render_fit(fits, index) for fits in (trained.before, trained.after))
        report.layers.add(layer=layer, before=before, after=after, steps=int(trained.steps[index]))
    return report


def render_pieces(part: PiecesPart) -> tuned_pb2.LensPart:
    return tuned_pb2.LensPart(texts=part.texts, pieces=part.pieces, masked_pieces=part.masked, truncated_tokens=part.truncated)


def _render_fit(fits: LensFits, index: int) -> tuned_pb2.LensFit:
    return tuned_pb2.LensFit(divergence=float(fits.divergence[index]), agreeing=int(fits.agreeing[index]))


def render_map(layer: int, values: NDArray[np.float32]) -> Iterator[tuned_pb2.TranslatorChunk]:
    """Renders a layer's map in parts."""
    data = values.astype("<f4", copy=False).tobytes()
    for index in range(math.ceil(len(data) / CHUNK_BYTES)):
        begin = index * CHUNK_BYTES
        yield tuned_pb2.TranslatorChunk(layer=layer, offset=begin, data=data[begin : begin + CHUNK_BYTES])
