"""Reads a model with its library: torch, ONNX Runtime, or the faster one."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

import torch

from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.manifest import Manifest, read_manifest
from bertscope_service.checkpoints.sources import Kind, Report, Source, calling, inspect, read_config
from bertscope_service.encoders.base import FLOAT32, Encoder
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.encoders.onnx.foreign import ForeignOnnxEncoder
from bertscope_service.encoders.onnx.parts import weights_of
from bertscope_service.encoders.onnx.sessions import SessionSettings, unreadable
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.encoders.torch.pruning import prunable
from bertscope_service.encoders.torch.quantization import QUANTIZATION_KEY, QUANTIZED
from bertscope_service.encoders.torch.token_elimination import KEPT_SHARES_KEY
from bertscope_service.errors import FailedPrecondition, LoadAbandonedError, ServiceError, Unsupported
from bertscope_service.models.export_cache import NAME, exported, kept_export
from bertscope_service.models.precisions import check_precision
from bertscope_service.models.runtime_choice import ChoiceKey, RuntimeChoice, RuntimeChoices, only

logger = logging.getLogger(__name__)

Check = Callable[[], None]
"""Raises if nobody waits for the model any more."""


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Settings of the libraries. cache: folder of exported graphs. threads, optimisation: for ONNX Runtime, see
    SessionSettings.

    choices: the stored choices of runtime "auto"; None stores nothing. mixed_batches: see ForeignOnnxEncoder.load.
    """

    cache: Path
    threads: int = 0
    optimisation: str = "all"
    choices: RuntimeChoices | None = None
    mixed_batches: bool = False

    def sessions(self, asked: RuntimeRequest, weights: Path) -> SessionSettings:
        return SessionSettings(asked.device, weights, self.threads, self.optimisation, asked.precision == "tf32")


@dataclass(frozen=True, slots=True)
class RuntimeRequest:
    """The requested runtime ("torch", "onnx" or "auto"), precision ("fp32", "tf32", "bf16" or "fp16") and device."""

    runtime: str
    precision: str
    device: torch.device


@dataclass(frozen=True, slots=True)
class Candidates:
    """The encoders that can serve a source, and the choice between them.

    `choice` is set if it is made, `key` if it is to be stored; both are None if a runtime was requested.
    """

    encoders: Sequence[Encoder]
    choice: RuntimeChoice | None = None
    key: ChoiceKey | None = None


def read_candidates(
    source: Source, digest: str, asked: RuntimeRequest, settings: RuntimeSettings, check: Check = lambda: None
) -> Candidates:
    """Reads encoders as read_encoders does; for runtime "auto" only the chosen one if there is a stored choice."""
    if asked.runtime != "auto":
        return Candidates(read_encoders(source, digest, asked, settings, check))
    reason = _why_not_exported(source, asked) if source.kind is Kind.CHECKPOINT else "it holds ONNX graphs"
    if reason:
        (encoder,) = read_encoders(source, digest, asked, settings, check)
        return Candidates((encoder,), only(encoder.runtime, asked.device, reason))
    key = choice_key(source, digest, asked, settings)
    chosen = settings.choices.recall(key) if settings.choices is not None else None
    if chosen is not None:
        try:
            return Candidates(
                read_encoders(source, digest, replace(asked, runtime=chosen.runtime), settings, check), chosen, key
            )
        except ServiceError as error:
            logger.warning(
                "%s can't be run by %s as before; its library is chosen anew: %s", source.folder, chosen.runtime, error
            )
    encoders = read_encoders(source, digest, asked, settings, check)
    if len(encoders) == 1:
        reason = "it could not be exported for ONNX Runtime; the log says why"
        return Candidates(encoders, only(encoders[0].runtime, asked.device, reason))
    return Candidates(encoders, key=key)


def recognise(source: Source, asked: RuntimeRequest, settings: RuntimeSettings, report: Report) -> tuple[str, Manifest | None]:
    """Returns the manifest of the kept graphs that will run a checkpoint, None if PyTorch will, or perhaps; and the digest of
    its weights, "" if they need not be read to know that."""
    if source.kind is not Kind.CHECKPOINT or asked.runtime == "torch" or _why_not_exported(source, asked):
        return "", None
    found: list[str] = []

    def digest() -> str:
        found.append(source.digest(report))
        return found[0]

    try:
        kept = kept_export(source, settings.cache, digest)
    except OSError:
        return "", None  # the check of the source says what is wrong
    if kept is not None and asked.runtime == "auto":
        key = choice_key(source, found[0], asked, settings)
        choice = settings.choices.recall(key) if settings.choices is not None else None
        kept = kept if choice is not None and choice.runtime == "onnx" else None
    return "".join(found), kept


def choice_key(source: Source, digest: str, asked: RuntimeRequest, settings: RuntimeSettings) -> ChoiceKey:
    """Returns the conditions of the choice of a runtime for a checkpoint. Raises OSError."""
    # The configuration shapes a checkpoint's graphs as its weights do.
    config = hashlib.sha256((source.folder / "config.json").read_bytes()).hexdigest()
    return ChoiceKey(digest, config, str(asked.device), asked.precision, settings.threads, settings.optimisation)


def read_encoders(
    source: Source, digest: str, asked: RuntimeRequest, settings: RuntimeSettings, check: Check = lambda: None
) -> list[Encoder]:
    """Returns the encoders that can serve a source as requested; several only for runtime "auto", which has to choose.

    Blocks for seconds, longer if a checkpoint is exported for the first time; `check` is called several times a second then
    and may raise, to abandon it. Raises Unsupported for a runtime that can't run this source, FailedPrecondition.
    """
    if source.kind is not Kind.CHECKPOINT:
        return [_read_graphs(source, asked, settings, check)]
    if asked.runtime == "torch":
        return [_read_torch(source, asked)]
    reason = _why_not_exported(source, asked)
    if asked.runtime == "onnx":
        if reason:
            message = f"{source.folder} can't be run by onnx: {reason}; use runtime torch"
            raise Unsupported(message, "RUNTIME_UNSUPPORTED", runtime="onnx", source=source.folder)
        return [_read_exported(source, digest, asked, settings, check)]
    found: list[Encoder] = [_read_torch(source, asked)]
    if not reason:
        try:
            found.append(_read_exported(source, digest, asked, settings, check))
        except LoadAbandonedError:
            raise
        except ServiceError as error:
            logger.warning("%s is served by torch: %s", source.folder, error.message)
        except Exception:  # the exporter raises classes of its own; torch can serve the model
            logger.warning("%s is served by torch: it can't be exported", source.folder, exc_info=True)
    return found


def _read_torch(source: Source, asked: RuntimeRequest) -> Encoder:
    return load_encoder(source.folder, source.architecture, device=asked.device, precision=asked.precision)


def _why_not_exported(source: Source, asked: RuntimeRequest) -> str:
    """Returns why a checkpoint can't be exported, "" if it can."""
    if asked.precision not in FLOAT32:
        return f"its graphs compute in fp32, not {asked.precision}"
    if asked.device.type == "mps":
        return "ONNX Runtime runs on cpu and cuda here, not on mps"
    config = read_config(source.folder)
    for key, what in (
        (QUANTIZATION_KEY, "its weights are quantised for torch"),
        (KEPT_SHARES_KEY, "it drops tokens"),
    ):
        if key in config:
            return what
    return ARCHITECTURES[source.architecture].unexportable(config)


def _read_exported(source: Source, digest: str, asked: RuntimeRequest, settings: RuntimeSettings, check: Check) -> Encoder:
    """Reads a checkpoint as graphs. Gradients and pruning, which only torch has, use the checkpoint."""
    folder = exported(source, digest, settings.cache, check)
    try:
        encoder = _load(folder, read_manifest(folder), asked, settings)
    except FailedPrecondition as error:
        if error.reason != "SOURCE_UNREADABLE":
            raise
        # A file may be cut short if the machine crashed.
        logger.warning("%s is exported again: %s", source.folder, error.message)
        rmtree(folder, ignore_errors=True)
        folder = exported(source, digest, settings.cache, check)
        with calling((folder.parent, NAME)):
            encoder = _load(folder, read_manifest(folder), asked, settings)
    gained = {"differentiable": True, "prunable": prunable(source.architecture)}
    encoder.capabilities = replace(encoder.capabilities, **gained)
    return encoder


def _read_graphs(source: Source, asked: RuntimeRequest, settings: RuntimeSettings, check: Check) -> Encoder:
    if asked.runtime == "torch":
        message = f"{source.folder} holds ONNX graphs, which torch can't run; use runtime onnx or auto"
        raise Unsupported(message, "RUNTIME_UNSUPPORTED", runtime="torch", source=source.folder)
    if asked.device.type == "mps":
        message = f"{source.folder} holds ONNX graphs, which run on cpu and cuda here, not on mps; use device cpu"
        raise Unsupported(message, "DEVICE_UNSUPPORTED", device="mps", source=source.folder)
    manifest = read_manifest(source.folder) if source.kind is Kind.EXPORT else None
    if asked.precision not in (FLOAT32 if _stored(manifest) == "fp32" else ("fp32",)):
        message = f"{source.folder} computes in the number format it was exported in, not in {asked.precision}; ask for fp32"
        raise Unsupported(message, "PRECISION_UNSUPPORTED", precision=asked.precision, source=source.folder)
    if source.kind is Kind.EXPORT:
        return _load(source.folder, manifest, asked, settings)
    file = source.weight_files[0]
    sessions = settings.sessions(asked, file.parent)
    return ForeignOnnxEncoder.load(file, read_config(source.folder), sessions, check, mixed_batches=settings.mixed_batches)


def _load(folder: Path, manifest: Manifest | None, asked: RuntimeRequest, settings: RuntimeSettings) -> OnnxEncoder:
    if manifest is None or manifest.runtime != "onnx":
        raise unreadable(folder, ValueError("there is no manifest (bertscope.json) that says what they are"))
    stored = _stored(manifest)
    details: Mapping[str, object] = manifest.details
    precision = asked.precision if stored == "fp32" else stored
    return OnnxEncoder.load(folder, details, settings.sessions(asked, weights_of(folder).parent), precision)


def _stored(manifest: Manifest | None) -> str:
    """Returns the number format of the weights of graphs, which is named after the step that chose it."""
    return next((step.step for step in manifest.steps if step.step in QUANTIZED), "fp32") if manifest else "fp32"


def gradient_encoder(source: Source, digest: str, asked: RuntimeRequest) -> Encoder:
    """Reads the same model with torch, for gradients.

    Raises FailedPrecondition for a source that is no checkpoint, or whose weights have another digest now, Unsupported for a
    number format that PyTorch does not have in this process.
    """
    with source.named():
        if source.kind is not Kind.CHECKPOINT:
            raise FailedPrecondition(f"{source.folder} holds no weights for torch", "NO_GRADIENTS", source=source.folder)
        source = inspect(source.folder, source.confinement)
        if source.digest(lambda _: None) != digest:
            message = f"the weights in {source.folder} have changed since they were loaded; load them again and use that model"
            raise FailedPrecondition(message, "SOURCE_CHANGED", source=source.folder)
        check_source(source)
        check_precision(asked.precision, asked.device, "torch")
        return _read_torch(source, replace(asked, runtime="torch"))
