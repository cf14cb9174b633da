"""Makes a smaller or faster model of a checkpoint, in a new folder."""

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

from bertscope_service.compression.dictionary import quantize_weight_only
from bertscope_service.compression.drafts import draft
from bertscope_service.compression.feed_forward import remove_units
from bertscope_service.compression.half import to_half
from bertscope_service.compression.heads import remove_heads
from bertscope_service.compression.int8 import quantize_int8
from bertscope_service.compression.layers import keep_layers
from bertscope_service.compression.magnitude import prune_magnitude
from bertscope_service.compression.manifest import Manifest, exporter_versions, read_manifest, write_manifest
from bertscope_service.compression.onnx_export import export_onnx
from bertscope_service.compression.steps import (
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
    WeightOnly,
)
from bertscope_service.compression.tokens import eliminate_tokens
from bertscope_service.compression.vocabulary import reduce_vocabulary
from bertscope_service.compression.workpiece import Workpiece, copy_description
from bertscope_service.sources import Source

Report = Callable[[StepProgress], None]
"""Called from the compressing thread; may raise, which abandons the work."""

LIBRARIES = ("safetensors", "tokenizers", "torch", "transformers")
"""Libraries that write a checkpoint."""


def compress(source: Source, steps: Sequence[Step], target: Path, report: Report, digest: str) -> None:
    """Do some steps to the checkpoint of `source`, in the order of `in_order`, and write the result into the folder `target`,
    which appears at the end, whole. `digest` is that of the source's weights.

    The steps go together and the source can take them (see `plan`); a share of heads is spelled out. What nothing here reads
    is left out: a pooler without a classifier, a next-sentence head.

    Blocks for seconds, or minutes with importance on many texts; runs PyTorch in the calling thread. Raises AlreadyExists for a
    target that is not empty, FailedPrecondition for one that can't be written, a full disk or a source that can't be read, and
    what the steps raise.
    """
    planned = in_order(steps)
    total = len(planned) + 1
    exported = [step for step in planned if isinstance(step, (OnnxExport, Int8, WeightOnly))]
    export = any(isinstance(step, OnnxExport) for step in planned)
    with draft(target) as folder:
        details: Mapping[str, Any] = {}
        if not export:
            applied = _change(source, planned, folder, report, total)
        else:
            changes = planned[: -len(exported)]
            checkpoint, applied = source.folder, ()
            if changes:
                (checkpoint := folder / "checkpoint").mkdir()
                applied = _change(source, changes, checkpoint, report, total)
            report(StepProgress(len(changes), total, ", ".join(step.name for step in exported)))
            done, details = _export(checkpoint, source.architecture, exported, folder)
            applied = (*applied, *done)
            copy_description(checkpoint, folder)
            if changes:
                shutil.rmtree(checkpoint)
        before = read_manifest(source.folder) or Manifest("torch", digest)
        runtime = "onnx" if export else "torch"
        write_manifest(folder, Manifest(runtime, before.source_digest, (*before.steps, *applied), written_by(export), details))


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Steps as they are done: those that change the checkpoint in the order given, then number formats; the export and what
    happens in it last."""

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
    """Write a checkpoint that steps have changed. `total` is the number of all steps, loading included."""
    piece = Workpiece.read(source, folder)
    weights: Mapping[str, torch.Tensor] | None = None
    applied: list[Applied] = []
    for number, step in enumerate(steps):
        again = partial(report, StepProgress(number, total, step.name))
        again()
        match step:
            case Int8():
                weights, done = quantize_int8(piece.worth_keeping, piece.config)
            case WeightOnly():
                weights, done = quantize_weight_only(piece.worth_keeping, step.bits)
            case _:
                done = _apply(piece, step, again)
        applied.append(replace(done, numbers={name: float(number) for name, number in done.numbers.items()}))
    if weights is None:
        piece.save()
    else:
        piece.save_as(weights)
    return tuple(applied)


def _apply(piece: Workpiece, step: Step, report: Callable[[], None]) -> Applied:
    """Do one step that leaves a model; long ones call `report` now and then."""
    match step:
        case KeepLayers():
            return keep_layers(piece, step)
        case RemoveHeads():
            return remove_heads(piece, step)
        case RemoveFeedForward():
            return remove_units(piece, step, report)
        case PruneMagnitude():
            return prune_magnitude(piece, step)
        case EliminateTokens():
            return eliminate_tokens(piece.model, step.kept_shares, piece.tokenizer().mask_id)
        case ReduceVocabulary():
            return reduce_vocabulary(piece, step, report)
        case Half():
            return to_half(piece, step)
    raise TypeError(f"{step.name} leaves no model")


def _export(
    checkpoint: Path, architecture: str, steps: Sequence[Step], folder: Path
) -> tuple[tuple[Applied, ...], Mapping[str, Any]]:
    """Write ONNX graphs; what was done, and what the manifest must keep."""
    weight_only = next((step for step in steps if isinstance(step, WeightOnly)), None)
    int8 = any(isinstance(step, Int8) for step in steps)
    return export_onnx(checkpoint, architecture, folder, int8=int8, weight_only=weight_only)


def written_by(export: bool) -> dict[str, str]:
    """Versions of what shapes a folder, by name."""
    used = {"bertscope": __version__, **{library: version(library) for library in LIBRARIES}}
    return used | exporter_versions() if export else used
