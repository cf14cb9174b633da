"""Makes a smaller or faster model from a checkpoint, in a new folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from bertscope import __version__

from bertscope_service.checkpoints.atomic_folder import atomic_folder
from bertscope_service.checkpoints.manifest import Manifest, exporter_versions, read_manifest, write_manifest
from bertscope_service.checkpoints.sources import Source
from bertscope_service.checkpoints.steps import (
    Applied,
    EliminateTokens,
    Half,
    Int8,
    KeepLayers,
    OnnxExport,
    PruneMagnitude,
    ReduceVocabulary,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    StepProgress,
    Untrain,
    WeightOnly,
)
from bertscope_service.compression.dictionary import quantize_weight_only
from bertscope_service.compression.feed_forward import remove_units
from bertscope_service.compression.half import to_half
from bertscope_service.compression.heads import remove_heads
from bertscope_service.compression.int8 import quantize_int8
from bertscope_service.compression.layers import keep_layers
from bertscope_service.compression.magnitude import prune_magnitude
from bertscope_service.compression.onnx.isolated_export import export_onnx
from bertscope_service.compression.tokens import eliminate_tokens
from bertscope_service.compression.untrained import untrain
from bertscope_service.compression.vocabulary import reduce_vocabulary
from bertscope_service.compression.working_copy import WorkingCopy, copy_description

Report = Callable[[StepProgress], None]
"""Receives progress from the compressing thread; may raise, which abandons the work."""

LIBRARIES = ("safetensors", "tokenizers", "torch", "transformers")
"""Libraries that write a checkpoint."""


def compress(
    source: Source,
    steps: Sequence[Step],
    target: Path,
    report: Report,
    digest: str,
    documents: Callable[[Sequence[Applied]], Mapping[str, str]] | None = None,
) -> None:
    """Applies steps to the checkpoint of `source`, in the order of `in_order`, and writes the result into the folder `target`.

    The folder appears at the end, complete. `digest` is that of the source's weights. The steps fit each other and the source
    (see `plan`); a share of heads is spelled out. Unused parts are left out: a pooler without a classifier, a next-sentence
    head. `documents` makes files of the folder, by name, from all steps that led to it.

    Blocks for seconds, or minutes with importance on many texts; runs PyTorch in the calling thread. Raises AlreadyExists for
    a target that is not empty, FailedPrecondition for one that can't be written, a full disk or a source that can't be read,
    and the steps' errors.
    """
    planned = in_order(steps)
    total = len(planned) + 1
    exported = [step for step in planned if isinstance(step, (OnnxExport, Int8, WeightOnly))]
    export = any(isinstance(step, OnnxExport) for step in planned)
    with atomic_folder(target) as folder:
        details: Mapping[str, Any] = {}
        if not export:
            applied = _change(source, planned, folder, report, total)
        else:
            changes = planned[: -len(exported)]
            checkpoint, applied = source.folder, ()
            if changes:
                (checkpoint := folder / "checkpoint").mkdir()
                applied = _change(source, changes, checkpoint, report, total)
            again = partial(report, StepProgress(len(changes), total, ", ".join(step.name for step in exported)))
            again()
            written, details = _export(checkpoint, source.architecture, exported, folder, again)
            applied = (*applied, *written)
            copy_description(checkpoint, folder)
            if changes:
                shutil.rmtree(checkpoint)
        before = read_manifest(source.folder) or Manifest("torch", digest)
        runtime = "onnx" if export else "torch"
        done = (*before.steps, *applied)
        write_manifest(folder, Manifest(runtime, before.source_digest, done, written_by(export), details))
        for name, text in (documents(done) if documents else {}).items():
            (folder / name).write_text(text, encoding="utf-8")


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Orders steps: those that change the checkpoint in the order given, then number formats, then the export and its own
    steps."""

    def rank(step: Step) -> int:
        match step:
            case Int8() | WeightOnly():
                return 3
            case OnnxExport():
                return 2
            case Half():
                return 1
        return 0

    return sorted(steps, key=rank)


def _change(source: Source, steps: Sequence[Step], folder: Path, report: Report, total: int) -> tuple[Applied, ...]:
    """Writes a checkpoint that steps have changed. `total` is the number of all steps, loading included."""
    copy = WorkingCopy.read(source, folder)
    weights: Mapping[str, torch.Tensor] | None = None
    applied: list[Applied] = []
    for number, step in enumerate(steps):
        again = partial(report, StepProgress(number, total, step.name))
        again()
        match step:
            case Int8():
                weights, done = quantize_int8(copy.worth_keeping, copy.config)
            case WeightOnly():
                weights, done = quantize_weight_only(copy.worth_keeping, step.bits)
            case _:
                done = _apply(copy, step, again)
        applied.append(replace(done, numbers={name: float(number) for name, number in done.numbers.items()}))
    if weights is None:
        copy.save()
    else:
        copy.save_as(weights)
    return tuple(applied)


def _apply(copy: WorkingCopy, step: Step, report: Callable[[], None]) -> Applied:
    """Applies one step whose result is a model; long ones call `report` regularly."""
    match step:
        case KeepLayers():
            return keep_layers(copy, step)
        case RemoveHeads():
            return remove_heads(copy, step)
        case RemoveFeedForward():
            return remove_units(copy, step, report)
        case PruneMagnitude():
            return prune_magnitude(copy, step)
        case EliminateTokens():
            return eliminate_tokens(copy.model, step.kept_shares, copy.tokenizer().mask_id)
        case ReduceVocabulary():
            return reduce_vocabulary(copy, step, report)
        case Untrain():
            return untrain(copy, step)
        case Half():
            return to_half(copy, step)
    raise TypeError(f"{step.name} leaves no model")


def _export(
    checkpoint: Path, architecture: str, steps: Sequence[Step], folder: Path, check: Callable[[], None]
) -> tuple[tuple[Applied, ...], Mapping[str, Any]]:
    """Writes ONNX graphs. Returns the applied steps, and the details for the manifest."""
    weight_only = next((step for step in steps if isinstance(step, WeightOnly)), None)
    int8 = any(isinstance(step, Int8) for step in steps)
    return export_onnx(checkpoint, architecture, folder, int8=int8, weight_only=weight_only, check=check)


def written_by(export: bool) -> dict[str, str]:
    """Returns the versions of the libraries that shape a folder, by name."""
    used = {"bertscope": __version__, **{library: version(library) for library in LIBRARIES}}
    return {**used, **exporter_versions()} if export else used
