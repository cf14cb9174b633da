"""Reads a model from its source, which is made first where a request says how."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from bertscope_service.compression.compress import compress
from bertscope_service.compression.drafts import check_vacant
from bertscope_service.compression.half import chosen_precision
from bertscope_service.compression.manifest import read_manifest
from bertscope_service.compression.steps import StepProgress
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.loaded import LoadedModel, LoadSpec, Made
from bertscope_service.registry import Report
from bertscope_service.runtimes import Asked, RuntimeSettings, read_encoders
from bertscope_service.sources import Kind, Progress, Source, Stage, inspect, locate
from bertscope_service.tokenization import TextTokenizer


def read_model(spec: LoadSpec, report: Report, *, runtimes: RuntimeSettings) -> LoadedModel:
    """Find, check and read a model, which is made first if its spec says how. Blocks for seconds, or for a download; `report`
    may raise to abandon it.

    Raises InvalidArgument, AlreadyExists, FailedPrecondition, Unsupported, Unavailable.
    """
    device = choose_device(spec.device)
    if spec.made is None:
        return _read(spec, locate(spec.source, spec.revision, report), device, report, runtimes)
    steps = len(spec.made.steps)

    def report_loading(_: object) -> None:
        report(StepProgress(steps, steps + 1, "loading"))

    with _made(spec.made, report) as source:
        scratch = source.folder.parent if spec.made.folder is None else None
        if scratch is not None:
            # Graphs of a model that is not saved have no business in the cache.
            runtimes = replace(runtimes, cache=scratch)
        loaded = _read(spec, source, device, report_loading, runtimes)
        # The last moment at which an abandoned model takes its folder with it.
        report_loading(None)
        if scratch is not None and all(encoder.runtime == "torch" for encoder in (loaded.encoder, *loaded.rivals)):
            shutil.rmtree(scratch, ignore_errors=True)  # it is all in memory
            return replace(loaded, source=None)
        return loaded if scratch is None else replace(loaded, scratch=Scratch(scratch))


class Scratch:
    """The folder of a model that is not saved: graphs are read in parts, as they are needed, so it goes with the model."""

    def __init__(self, folder: Path) -> None:
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


@contextmanager
def _made(made: Made, report: Report) -> Iterator[Source]:
    """A compressed checkpoint to read; one that can't be read is gone afterwards.

    One that is not to be saved lies in a temporary folder of its own, which is the caller's to remove.
    """

    def report_reading(_: object) -> None:
        report(StepProgress(0, len(made.steps) + 1, "reading"))

    if made.folder is not None:
        check_vacant(made.folder)
    whole = locate(made.source, made.revision, report_reading)
    if whole.digest(report_reading) != made.digest:
        message = f"the weights in {whole.folder} have changed since they were loaded; load them again, and take that model"
        raise FailedPrecondition(message, "SOURCE_CHANGED", source=made.source)
    scratch = _temporary_folder() if made.folder is None else None
    folder = made.folder or Path(str(scratch)) / "made"
    try:
        compress(whole, made.steps, folder, report, made.digest)
    except BaseException:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        raise
    try:
        yield inspect(folder)
    except BaseException:
        shutil.rmtree(scratch or folder, ignore_errors=True)
        raise


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="bertscope-"))
    except OSError as error:
        message = f"the server has no temporary folder to work in ({error.strerror}); give a folder to save the model in"
        raise FailedPrecondition(message, "FOLDER_UNWRITABLE") from error


def _read(spec: LoadSpec, source: Source, device: torch.device, report: Report, runtimes: RuntimeSettings) -> LoadedModel:
    digest = source.digest(report)
    report(Progress(Stage.READING, source.weight_bytes, source.weight_bytes, "weights"))
    manifest = read_manifest(source.folder)
    steps = manifest.steps if manifest else ()
    precision = chosen_precision(steps) if spec.precision == "auto" else spec.precision
    encoder, *rivals = read_encoders(source, digest, Asked(spec.runtime, precision, device), runtimes)
    tokenizer = TextTokenizer.load(source.folder, encoder.shape.max_tokens)
    if tokenizer.size > encoder.shape.vocabulary_size:
        message = (
            f"the tokenizer in {source.folder} has {tokenizer.size} entries and the model {encoder.shape.vocabulary_size}; "
            "they don't belong together"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=source.folder)
    checkpoint = source.kind is Kind.CHECKPOINT
    return LoadedModel(spec, encoder, tokenizer, digest, source.weight_bytes, steps, checkpoint, source, tuple(rivals))


def choose_device(asked: str) -> torch.device:
    """ "auto" (the first GPU, else the CPU), "cpu", "cuda" or "cuda:N". Raises InvalidArgument, FailedPrecondition."""
    if asked == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if asked == "cpu":
        return torch.device("cpu")
    match = re.fullmatch(r"cuda(?::(\d{1,3}))?", asked)
    if match is None:
        raise InvalidArgument("device", f"device {asked!r} is unknown; write auto, cpu or cuda:N", "UNKNOWN_DEVICE")
    index, count = int(match[1] or 0), torch.cuda.device_count()
    if index >= count:
        found = f"this server has {count} GPU{'s' * (count != 1)}"
        raise FailedPrecondition(f"{asked} is not there: {found}; use cpu or auto", "DEVICE_NOT_FOUND", device=asked)
    return torch.device(f"cuda:{index}")
