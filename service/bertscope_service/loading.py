"""Reads a model from its source, which is made first where a request says how."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from bertscope_service.compression.compress import compress
from bertscope_service.compression.drafts import check_vacant
from bertscope_service.compression.half import chosen_precision
from bertscope_service.compression.manifest import read_manifest
from bertscope_service.compression.steps import StepProgress
from bertscope_service.confinement import Confinement
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.loaded import LoadedModel, LoadSpec, Made
from bertscope_service.registry import Report
from bertscope_service.runtimes import Asked, RuntimeSettings, read_encoders
from bertscope_service.scratch import Scratch
from bertscope_service.sources import Kind, Progress, Source, Stage, calling, inspect, locate
from bertscope_service.tokenization import TextTokenizer


def read_model(spec: LoadSpec, report: Report, *, runtimes: RuntimeSettings) -> LoadedModel:
    """Find, check and read a model, which is made first if its spec says how. Blocks for seconds, or for a download; `report`
    may raise to abandon it.

    Raises InvalidArgument, AlreadyExists, FailedPrecondition, PermissionDenied, Unsupported, Unavailable.
    """
    device = choose_device(spec.device)
    if spec.made is None:
        source = locate(spec.source, spec.revision, report, spec.confinement)
        with source.named():
            return _read(spec, source, device, report, runtimes)
    made, steps = spec.made, len(spec.made.steps)

    def report_loading(_: object) -> None:
        report(StepProgress(steps, steps + 1, "loading"))

    if made.folder is not None:
        with _made(made, made.folder, report) as source:
            loaded = _read(spec, source, device, report_loading, runtimes)
            # The last moment at which an abandoned model takes its folder with it.
            report_loading(None)
            return loaded
    with ExitStack() as stack:
        scratch = stack.enter_context(Scratch())
        with calling((scratch.folder, "the new model")), _made(made, scratch.folder / "made", report) as source:
            # Graphs of a model that is not saved have no business in the cache.
            loaded = _read(spec, source, device, report_loading, replace(runtimes, cache=scratch.folder))
            report_loading(None)
        if all(encoder.runtime == "torch" for encoder in (loaded.encoder, *loaded.rivals)):
            return replace(loaded, source=None)  # it is all in memory
        # Graphs are read in parts, as they are needed, so their folder goes with the model.
        stack.pop_all()
        return replace(loaded, scratch=scratch)


@contextmanager
def _made(made: Made, folder: Path, report: Report) -> Iterator[Source]:
    """A compressed checkpoint to read, in a folder; one that can't be read is gone afterwards."""

    def report_reading(_: object) -> None:
        report(StepProgress(0, len(made.steps) + 1, "reading"))

    check_vacant(folder)
    whole = locate(made.source, made.revision, report_reading, made.confinement)
    with whole.named():
        if whole.digest(report_reading) != made.digest:
            message = f"the weights in {whole.folder} have changed since they were loaded; load them again, and take that model"
            raise FailedPrecondition(message, "SOURCE_CHANGED", source=made.source)
        compress(whole, made.steps, folder, report, made.digest)
    try:
        with whole.named():
            whole.confinement.check(whole.folder)
        yield inspect(folder, Confinement((folder,)))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


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
    # Once more: what was read must have lain where it may.
    source.confinement.check(source.folder)
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
