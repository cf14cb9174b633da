"""Which library runs a model: torch, ONNX Runtime, or whichever is faster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bertscope_service.compression.manifest import Manifest, read_manifest
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx_encoder import OnnxEncoder
from bertscope_service.encoders.onnx_foreign import ForeignOnnxEncoder
from bertscope_service.encoders.onnx_parts import weights_of
from bertscope_service.encoders.onnx_sessions import SessionSettings, unreadable
from bertscope_service.encoders.torch_encoder import TorchEncoder
from bertscope_service.encoders.torch_pruning import PARTS
from bertscope_service.encoders.torch_quantization import QUANTIZATION_KEY, QUANTIZED
from bertscope_service.encoders.torch_tokens import KEPT_SHARES_KEY
from bertscope_service.errors import FailedPrecondition, ServiceError, Unsupported
from bertscope_service.exporting import NAME, discard, exported
from bertscope_service.sources import Kind, Source, calling, inspect, read_config

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """cache: folder of exported graphs. threads, optimisation: of ONNX Runtime, as in SessionSettings."""

    cache: Path
    threads: int = 0
    optimisation: str = "all"

    def sessions(self, device: torch.device, weights: Path) -> SessionSettings:
        return SessionSettings(device, weights, self.threads, self.optimisation)


@dataclass(frozen=True, slots=True)
class Asked:
    """How a model is to run: "torch", "onnx" or "auto"; in "fp32", "bf16" or "fp16"; where."""

    runtime: str
    precision: str
    device: torch.device


def read_encoders(source: Source, digest: str, asked: Asked, settings: RuntimeSettings) -> list[Encoder]:
    """The encoders that can serve a source as asked; several only for runtime "auto", which has to choose.

    Blocks for seconds, more when a checkpoint is exported for the first time. Raises Unsupported for a runtime that this source
    can't be run by, FailedPrecondition.
    """
    if source.kind is not Kind.CHECKPOINT:
        return [_read_graphs(source, asked, settings)]
    if asked.runtime == "torch":
        return [_read_torch(source, asked)]
    reason = _why_not_exported(source, asked)
    if asked.runtime == "onnx":
        if reason:
            message = f"{source.folder} can't be run by onnx: {reason}; use runtime torch"
            raise Unsupported(message, "RUNTIME_UNSUPPORTED", runtime="onnx", source=source.folder)
        return [_read_exported(source, digest, asked, settings)]
    found: list[Encoder] = [_read_torch(source, asked)]
    if not reason:
        try:
            found.append(_read_exported(source, digest, asked, settings))
        except ServiceError as error:
            logger.warning("%s is served by torch: %s", source.folder, error.message)
        except Exception:  # the exporter has classes of its own; torch serves the model whatever it is
            logger.warning("%s is served by torch: it can't be exported", source.folder, exc_info=True)
    return found


def _read_torch(source: Source, asked: Asked) -> Encoder:
    return TorchEncoder.load(source.folder, source.architecture, device=asked.device, precision=asked.precision)


def _why_not_exported(source: Source, asked: Asked) -> str:
    """Why a checkpoint has no graphs, "" if it can have."""
    if asked.precision != "fp32":
        return f"its graphs compute in fp32, not {asked.precision}"
    config = read_config(source.folder)
    for key, what in (
        (QUANTIZATION_KEY, "its weights are quantised for torch"),
        (KEPT_SHARES_KEY, "it drops tokens"),
    ):
        if key in config:
            return what
    return ""


def _read_exported(source: Source, digest: str, asked: Asked, settings: RuntimeSettings) -> Encoder:
    """A checkpoint as graphs. What only torch can do with it (gradients, pruning) the server does with the checkpoint."""
    folder = exported(source, digest, settings.cache)
    try:
        encoder = _load(folder, read_manifest(folder), asked, settings)
    except FailedPrecondition as error:
        if error.reason != "SOURCE_UNREADABLE":
            raise
        # A machine that went down may leave a file shorter than it was written.
        logger.warning("%s is exported again: %s", source.folder, error.message)
        discard(folder)
        folder = exported(source, digest, settings.cache)
        with calling((folder.parent, NAME)):
            encoder = _load(folder, read_manifest(folder), asked, settings)
    encoder.shape = replace(encoder.shape, differentiable=True, prunable=source.architecture in PARTS)
    return encoder


def _read_graphs(source: Source, asked: Asked, settings: RuntimeSettings) -> Encoder:
    if asked.runtime == "torch":
        message = f"{source.folder} holds ONNX graphs, which torch can't run; use runtime onnx or auto"
        raise Unsupported(message, "RUNTIME_UNSUPPORTED", runtime="torch", source=source.folder)
    if asked.precision != "fp32":
        message = f"{source.folder} computes in the number format it was exported in, not in {asked.precision}; ask for fp32"
        raise Unsupported(message, "PRECISION_UNSUPPORTED", precision=asked.precision, source=source.folder)
    if source.kind is Kind.EXPORT:
        return _load(source.folder, read_manifest(source.folder), asked, settings)
    file = source.weight_files[0]
    return ForeignOnnxEncoder.load(file, read_config(source.folder), settings.sessions(asked.device, file.parent))


def _load(folder: Path, manifest: Manifest | None, asked: Asked, settings: RuntimeSettings) -> OnnxEncoder:
    if manifest is None or manifest.runtime != "onnx":
        raise unreadable(folder, ValueError("there is no manifest (bertscope.json) that says what they are"))
    # Precisions are named after the steps that choose them.
    precision = next((step.step for step in manifest.steps if step.step in QUANTIZED), "fp32")
    details: Mapping[str, object] = manifest.details
    return OnnxEncoder.load(folder, details, settings.sessions(asked.device, weights_of(folder).parent), precision)


def gradient_encoder(source: Source, digest: str, asked: Asked) -> Encoder:
    """The same model by torch, for gradients. Raises FailedPrecondition for a source that is no checkpoint, or whose weights
    have another digest by now."""
    with source.named():
        if source.kind is not Kind.CHECKPOINT:
            raise FailedPrecondition(f"{source.folder} holds no weights for torch", "NO_GRADIENTS", source=source.folder)
        source = inspect(source.folder, source.confinement)
        if source.digest(lambda _: None) != digest:
            message = f"the weights in {source.folder} have changed since they were loaded; load them again and take that model"
            raise FailedPrecondition(message, "SOURCE_CHANGED", source=source.folder)
        return _read_torch(source, replace(asked, runtime="torch"))
