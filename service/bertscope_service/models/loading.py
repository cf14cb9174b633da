"""Reads a model from its source; makes the source first if the specification has a derivation."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from bertscope_service.checkpoints.atomic_folder import check_vacant
from bertscope_service.checkpoints.check import check_source, check_source_weights
from bertscope_service.checkpoints.confinement import Confinement
from bertscope_service.checkpoints.declared_pooling import read_declared_pooling
from bertscope_service.checkpoints.manifest import read_manifest
from bertscope_service.checkpoints.sources import Kind, Progress, Source, Stage, calling, inspect, locate
from bertscope_service.checkpoints.steps import StepProgress
from bertscope_service.checkpoints.temporary_folder import TemporaryFolder
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.tokenizer_checks import check_tokenizer
from bertscope_service.compression.compress import compress
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.gpu_driver import why_no_gpu
from bertscope_service.models.gpu_files import cuda_index
from bertscope_service.models.loaded import Derivation, LoadedModel, LoadSpec
from bertscope_service.models.precisions import check_precision, choose_precision
from bertscope_service.models.registry import Report
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_candidates, recognise

logger = logging.getLogger(__name__)


def read_model(spec: LoadSpec, report: Report, *, runtimes: RuntimeSettings) -> LoadedModel:
    """Finds, checks and reads a model; makes it first if its specification has a derivation.

    Blocks for seconds, or for a download; `report` may raise to abandon it. Raises InvalidArgument, AlreadyExists,
    FailedPrecondition, PermissionDenied, Unsupported, Unavailable.
    """
    device = choose_device(spec.device)
    if spec.derivation is None:
        source = locate(spec.source, spec.revision, report, spec.confinement)
        with source.named():
            return _read(spec, source, device, report, runtimes)
    made, steps = spec.derivation, len(spec.derivation.steps)

    def report_loading(_: object) -> None:
        report(StepProgress(steps, steps + 1, "loading"))

    if made.folder is not None:
        with _made(made, made.folder, report) as source:
            loaded = _read(spec, source, device, report_loading, runtimes)
            # The last check at which abandoning the load also deletes the folder.
            report_loading(None)
            return loaded
    with ExitStack() as stack:
        temporary = stack.enter_context(TemporaryFolder())
        with calling((temporary.folder, "the new model")), _made(made, temporary.folder / "made", report) as source:
            # Graphs of a model that is not saved are not cached.
            loaded = _read(spec, source, device, report_loading, replace(runtimes, cache=temporary.folder))
            report_loading(None)
        if all(encoder.runtime == "torch" for encoder in (loaded.encoder, *loaded.alternatives)):
            return replace(loaded, source=None)  # the model is in memory
        # Graphs are read in parts, on demand, so their folder is deleted with the model.
        stack.pop_all()
        return replace(loaded, temporary=temporary)


@contextmanager
def _made(made: Derivation, folder: Path, report: Report) -> Iterator[Source]:
    """Makes a compressed checkpoint in a folder, to be read; deletes it if it can't be read."""

    def report_reading(_: object) -> None:
        report(StepProgress(0, len(made.steps) + 1, "reading"))

    check_vacant(folder)
    whole = locate(made.source, made.revision, report_reading, made.confinement)
    with whole.named():
        if whole.digest(report_reading) != made.digest:
            message = f"the weights in {whole.folder} have changed since they were loaded; load them again, and use that model"
            raise FailedPrecondition(message, "SOURCE_CHANGED", source=made.source)
        check_source(whole)
        compress(whole, made.steps, folder, report, made.digest)
    try:
        with whole.named():
            whole.confinement.check(whole.folder)
        yield inspect(folder, Confinement((folder,)))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _read(spec: LoadSpec, source: Source, device: torch.device, report: Report, runtimes: RuntimeSettings) -> LoadedModel:
    manifest = read_manifest(source.folder)
    steps = manifest.steps if manifest else ()
    precision = choose_precision(spec.precision, spec.runtime, source, steps, device)
    graphs = spec.runtime == "onnx" or source.kind is not Kind.CHECKPOINT
    check_precision(precision, device, "onnx" if graphs else "torch")
    asked = RuntimeRequest(spec.runtime, precision, device)
    digest, exported = recognise(source, asked, runtimes, report)
    check_source_weights(check_source(source, exported), precision)
    digest = digest or source.digest(report)
    size = source.weight_bytes

    def report_reading() -> None:
        report(Progress(Stage.READING, size, size, "weights"))

    report_reading()
    candidates = read_candidates(source, digest, asked, runtimes, report_reading)
    encoder, *alternatives = candidates.encoders
    tokenizer = TextTokenizer.load(source.folder, encoder.shape.max_tokens, owner=spec.name, check=report_reading)
    check_tokenizer(tokenizer, source.folder, encoder.shape.vocabulary_size, encoder.shape.segments)
    declared = read_declared_pooling(source.folder)
    # Checked again, because links may have changed during the reading.
    source.confinement.check(source.folder)
    checkpoint = source.kind is Kind.CHECKPOINT
    loaded = LoadedModel(spec, encoder, tokenizer, digest, source.weight_bytes, steps, checkpoint, source, tuple(alternatives))
    slot = (runtimes.choices, candidates.key) if runtimes.choices is not None and candidates.key is not None else None
    return replace(loaded, choice=candidates.choice, remember=slot, declared=declared)


def choose_device(asked: str) -> torch.device:
    """Returns the device for "auto" (the first GPU, else the CPU), "cpu", "cuda", "cuda:N" or "mps".

    "auto" does not take mps, Apple's GPU, on which nothing here was tried. Raises InvalidArgument, FailedPrecondition.
    """
    index = cuda_index(asked)
    if asked == "auto":
        if reason := why_no_gpu():
            logger.warning("this machine has an NVIDIA driver, but models run on its CPU: %s", reason)
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if asked == "mps":
        if not torch.backends.mps.is_available():
            message = "mps does not exist: PyTorch finds no Apple GPU here; use cpu or auto"
            raise FailedPrecondition(message, "DEVICE_NOT_FOUND", device=asked)
        return torch.device("mps")
    if index is None:
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if index >= count:
        found = why_no_gpu() or f"this server has {count} GPU{'s' * (count != 1)}"
        raise FailedPrecondition(f"{asked} does not exist: {found}; use cpu or auto", "DEVICE_NOT_FOUND", device=asked)
    return torch.device(f"cuda:{index}")
