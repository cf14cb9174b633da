"""Reads a model from its source: the one place that chooses a runtime."""

from __future__ import annotations

import re

import torch

from bertscope_service.encoders.torch_encoder import TorchEncoder
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.registry import LoadedModel, LoadSpec
from bertscope_service.sources import Progress, Report, Stage, locate
from bertscope_service.tokenization import TextTokenizer


def read_model(spec: LoadSpec, report: Report) -> LoadedModel:
    """Find, check and read a model. Blocks for seconds, or for a download; `report` may raise to abandon it.

    Raises InvalidArgument, FailedPrecondition, Unavailable.
    """
    device = choose_device(spec.device)
    source = locate(spec.source, spec.revision, report)
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
