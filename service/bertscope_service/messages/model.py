"""Requests and replies of ModelService."""

from __future__ import annotations

import re
from pathlib import Path

from bertscope.v1 import common_pb2, compression_pb2, model_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from bertscope_service.compression.steps import Applied
from bertscope_service.entry import Entry, ModelState
from bertscope_service.errors import InvalidArgument
from bertscope_service.loaded import LoadSpec
from bertscope_service.messages.common import ASKABLE_PRECISIONS, PRECISIONS, RUNTIMES, parse_runtime
from bertscope_service.messages.pages import cut_page
from bertscope_service.settings import Settings
from bertscope_service.sources import Progress, Stage

MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
STATES = {
    ModelState.LOADING: model_pb2.Model.STATE_LOADING,
    ModelState.READY: model_pb2.Model.STATE_READY,
    ModelState.UNLOADING: model_pb2.Model.STATE_UNLOADING,
}
STAGES = {
    Stage.RESOLVING: model_pb2.LoadProgress.STAGE_RESOLVING,
    Stage.DOWNLOADING: model_pb2.LoadProgress.STAGE_DOWNLOADING,
    Stage.READING: model_pb2.LoadProgress.STAGE_READING,
    Stage.WARMING_UP: model_pb2.LoadProgress.STAGE_WARMING_UP,
}


def parse_load(request: model_pb2.LoadModelRequest, settings: Settings) -> LoadSpec:
    """Raises InvalidArgument."""
    if not request.source.strip():
        raise InvalidArgument("source", "source is empty; give a hub id or a folder on the server", "NO_SOURCE")
    precisions = {PRECISIONS[precision]: precision for precision in ASKABLE_PRECISIONS}
    precisions[common_pb2.PRECISION_UNSPECIFIED] = settings.precision
    if request.precision not in precisions:
        message = f"precision is {request.precision}; set PRECISION_FLOAT32, PRECISION_BFLOAT16 or PRECISION_FLOAT16"
        raise InvalidArgument("precision", message, "UNKNOWN_PRECISION")
    device, precision = request.device or settings.device, precisions[request.precision]
    runtime = parse_runtime(request.runtime, settings.runtime)
    return load_spec(request.model_id, request.source, device, precision, runtime, request.revision)


def load_spec(model_id: str, source: str, device: str, precision: str, runtime: str, revision: str = "") -> LoadSpec:
    """`model_id` "" becomes the last part of the source. Raises InvalidArgument for an id that is malformed."""
    chosen = check_model_id(model_id or source.rstrip("/").rpartition("/")[2].removesuffix(".onnx"))
    return LoadSpec(chosen, source, device, precision, revision, runtime=runtime)


def check_model_id(model_id: str) -> str:
    """Raises InvalidArgument for an id that is malformed or empty."""
    if not MODEL_ID.fullmatch(model_id):
        rule = "1 to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        message = f"model_id {model_id!r} is malformed; use {rule}"
        raise InvalidArgument("model_id", message, "MALFORMED_MODEL_ID")
    return model_id


def check_folder(folder: str) -> Path | None:
    """A folder to save a new model in; None for "". Raises InvalidArgument for one that is not absolute."""
    if not folder:
        return None
    if "\0" in folder or not Path(folder).is_absolute():
        message = f"folder {folder!r} is not an absolute path; begin it with '/', or leave it out not to save the model"
        raise InvalidArgument("folder", message, "FOLDER_NOT_ABSOLUTE")
    return Path(folder)


def render_page(entries: list[Entry], size: int, after: str) -> model_pb2.ListModelsResponse:
    """Models behind the one named `after`. Raises InvalidArgument if that one is gone."""
    page, token = cut_page([entry.spec.name for entry in entries], size, after)
    return model_pb2.ListModelsResponse(models=map(render_model, entries[page]), next_page_token=token)


def parse_unload(request: model_pb2.UnloadModelRequest) -> str:
    """The name; unlike elsewhere, none does not mean the default model. Raises InvalidArgument."""
    if not request.name:
        raise InvalidArgument("name", 'name is empty; say which model to unload, "models/{id}"', "NO_NAME")
    return request.name


def render_model(entry: Entry) -> model_pb2.Model:
    spec, loaded = entry.spec, entry.loaded
    model = model_pb2.Model(name=spec.name, source=spec.source, state=STATES[entry.state])
    if loaded is None:
        return model
    shape, tokenizer = loaded.encoder.shape, loaded.tokenizer
    found = {
        model_pb2.CAPABILITY_ATTENTION: shape.observable,
        model_pb2.CAPABILITY_CLOZE: shape.has_masked_lm_head and tokenizer.mask_id is not None,
        model_pb2.CAPABILITY_INTERVENTIONS: shape.observable,
        model_pb2.CAPABILITY_CLASSIFICATION: bool(shape.labels),
        model_pb2.CAPABILITY_RANKING: shape.differentiable,
        model_pb2.CAPABILITY_PRUNING: shape.prunable,
    }
    capabilities = [capability for capability, has in found.items() if has]
    ready_time = Timestamp()
    ready_time.FromMilliseconds(int(entry.ready_time * 1000))
    model.MergeFrom(
        model_pb2.Model(
            architecture=shape.architecture,
            runtime=RUNTIMES[loaded.encoder.runtime],
            device=str(loaded.encoder.device),
            precision=PRECISIONS[loaded.encoder.precision],
            layers=shape.layers,
            heads=shape.heads,
            hidden_size=shape.hidden_size,
            vocabulary_size=shape.vocabulary_size,
            max_tokens=tokenizer.max_tokens,
            parameters=shape.parameters,
            weight_bytes=loaded.weight_bytes,
            capabilities=capabilities,
            weights_digest=loaded.weights_digest,
            mask_token=tokenizer.mask_token or "",
            ready_time=ready_time,
            labels=shape.labels,
            pruned_heads=[common_pb2.LayerHeads(layer=layer, heads=heads) for layer, heads in sorted(shape.pruned.items())],
            compression=map(render_applied, loaded.steps),
        )
    )
    return model


def render_applied(step: Applied) -> compression_pb2.AppliedStep:
    return compression_pb2.AppliedStep(step=step.step, description=step.description, numbers=step.numbers)


def render_progress(progress: Progress) -> model_pb2.LoadModelResponse:
    return model_pb2.LoadModelResponse(
        progress=model_pb2.LoadProgress(
            stage=STAGES[progress.stage],
            done_bytes=progress.done_bytes,
            total_bytes=progress.total_bytes,
            detail=progress.detail,
        )
    )
