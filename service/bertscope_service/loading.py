"""Reads a model from its source: the one place that chooses a runtime."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bertscope_service.compression.drafts import check_vacant
from bertscope_service.compression.heads import prune_heads
from bertscope_service.encoders.torch_encoder import TorchEncoder
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.registry import LoadedModel, LoadSpec, Pruning
from bertscope_service.sources import Progress, Report, Source, Stage, inspect, locate
from bertscope_service.tokenization import TextTokenizer


def read_model(spec: LoadSpec, report: Report) -> LoadedModel:
    """Find, check and read a model, which is made first if its spec says how. Blocks for seconds, or for a download; `report`
    may raise to abandon it.

    Raises InvalidArgument, AlreadyExists, FailedPrecondition, Unavailable.
    """
    device = choose_device(spec.device)
    if spec.pruning is None:
        return _read(spec, locate(spec.source, spec.revision, report), device, report)
    with _pruned(spec.pruning, report) as source:
        loaded = _read(spec, source, device, report)
        # The last moment at which an abandoned model takes its folder with it.
        report(Progress(Stage.READING, source.weight_bytes, source.weight_bytes, "weights"))
        return loaded


@contextmanager
def _pruned(pruning: Pruning, report: Report) -> Iterator[Source]:
    """A pruned checkpoint to read. One that is not to be saved is gone afterwards; so is one that can't be read."""
    if pruning.folder is not None:
        check_vacant(pruning.folder)
    whole = locate(pruning.source, pruning.revision, report)
    if whole.digest(report) != pruning.digest:
        message = f"the weights in {whole.folder} have changed since they were loaded; load them again and prune that model"
        raise FailedPrecondition(message, "SOURCE_CHANGED", source=pruning.source)
    if pruning.folder is None:
        with _temporary_folder() as temporary:
            prune_heads(whole, pruning.heads, temporary / "pruned")
            yield inspect(temporary / "pruned")
        return
    prune_heads(whole, pruning.heads, pruning.folder)
    try:
        yield inspect(pruning.folder)
    except BaseException:
        shutil.rmtree(pruning.folder, ignore_errors=True)
        raise


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        temporary = tempfile.TemporaryDirectory(prefix="bertscope-")
    except OSError as error:
        message = f"the server has no temporary folder to work in ({error.strerror}); give a folder to save the model in"
        raise FailedPrecondition(message, "FOLDER_UNWRITABLE") from error
    with temporary as name:
        yield Path(name)


def _read(spec: LoadSpec, source: Source, device: torch.device, report: Report) -> LoadedModel:
    digest = source.digest(report)
    report(Progress(Stage.READING, source.weight_bytes, source.weight_bytes, "weights"))
    encoder = TorchEncoder.load(source.folder, source.architecture, device=device, precision=spec.precision)
    tokenizer = TextTokenizer.load(source.folder, encoder.shape.max_tokens)
    if tokenizer.size > encoder.shape.vocabulary_size:
        message = (
            f"the tokenizer in {source.folder} has {tokenizer.size} entries and the model {encoder.shape.vocabulary_size}; "
            "they don't belong together"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=source.folder)
    return LoadedModel(spec, encoder, tokenizer, digest, source.weight_bytes)


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
