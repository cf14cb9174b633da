"""Reads a checkpoint folder into a transformers model: its class, its labels, the heads that it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from transformers.utils import logging as transformers_logging

from bertscope_service.encoders.torch_architectures import ARCHITECTURES
from bertscope_service.encoders.torch_attention import NAME
from bertscope_service.encoders.torch_pruning import read_pruned, shrunk
from bertscope_service.encoders.torch_quantization import (
    QUANTIZATION_KEY,
    IntegerMatrix,
    Quantization,
    decode_weights,
    read_quantization,
)
from bertscope_service.encoders.torch_tokens import read_kept_shares
from bertscope_service.errors import FailedPrecondition

# Its bars would be drawn over the server's log.
transformers_logging.disable_progress_bar()

CLASSIFIER = "ForSequenceClassification"
"""How the `architectures` of a fine-tuned classifier's config.json end."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as it was read, on the CPU.

    classifies: whether it is a sequence classifier, not a masked-LM. missing: names of the parameters that the weights lack, so
    that they are random; only those of a head. labels: what its head chooses from, in order; empty without such a head. pruned:
    the heads that are gone. kept_shares: of a text's tokens, after each layer; empty if none is dropped. quantization: how the
    weights were stored, which are decoded here; integers: those that were integers, by name.
    """

    model: Any
    classifies: bool
    missing: frozenset[str]
    labels: tuple[str, ...]
    pruned: dict[int, tuple[int, ...]]
    kept_shares: tuple[float, ...] = ()
    quantization: Quantization | None = None
    integers: Mapping[str, IntegerMatrix] = field(default_factory=dict)

    @property
    def has_masked_lm_head(self) -> bool:
        return not self.classifies and not self.missing


def read_checkpoint(folder: Path, name: str, dtype: torch.dtype) -> Checkpoint:
    """Read config.json and safetensors; never pickle, never code. `name` is the `model_type` of the config.

    Weights in few bits are decoded, and the model's config does not mention them. A head whose weights are not all there counts
    as none. Raises FailedPrecondition if other weights are missing, or any are
    broken or don't fit the config.
    """
    kind = ARCHITECTURES[name]
    config = _read_config(kind.masked_lm.config_class, folder)
    try:
        pruned, kept_shares, quantization = read_pruned(config), read_kept_shares(config), read_quantization(config)
    except ValueError as error:
        raise FailedPrecondition(f"{folder / 'config.json'}: {error}", "SOURCE_UNREADABLE", source=folder) from error
    classifies = any(str(written).endswith(CLASSIFIER) for written in config.architectures or ())
    place: Path | None = folder
    given, integers = dict[str, Any](), dict[str, IntegerMatrix]()
    if quantization is not None:
        weights, integers = _decode(folder, quantization)
        delattr(config, QUANTIZATION_KEY)
        place, given = None, {"config": config, "state_dict": weights}
    try:
        model, report = shrunk(kind.sequence_classification if classifies else kind.masked_lm, pruned).from_pretrained(
            place,
            **given,
            dtype=dtype,
            attn_implementation=NAME,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # reported below, in words
        )
    except Exception as error:
        # transformers and safetensors raise a dozen classes here; all mean that this folder can't be read.
        raise _unreadable(folder, f"the weights in {folder}", error) from error
    missing = frozenset(report["missing_keys"])
    needed, pooler = f"{kind.base}.", f"{kind.base}.pooler."
    lost = sorted(key for key in missing if key.startswith(needed) and not key.startswith(pooler))
    lost += sorted(str(entry[0]) for entry in report.get("mismatched_keys", ()))
    if lost:
        message = f"the weights in {folder} don't fit its config.json: {len(lost)} are missing or misshapen, first {lost[0]}"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)
    if not model.config.num_hidden_layers:
        raise FailedPrecondition(f"the model in {folder} has no layers", "SOURCE_UNREADABLE", source=folder)
    labels = _labels(model.config) if classifies and not missing else ()
    model = model.eval().requires_grad_(False)
    return Checkpoint(model, classifies, missing, labels, pruned, kept_shares, quantization, integers)


def _decode(folder: Path, quantization: Quantization) -> tuple[dict[str, torch.Tensor], dict[str, IntegerMatrix]]:
    try:
        return decode_weights(load((folder / "model.safetensors").read_bytes()), quantization)
    except (OSError, SafetensorError, KeyError, ValueError, IndexError, RuntimeError) as error:
        raise _unreadable(folder, f"the weights in {folder}", error) from error


def _read_config(kind: Any, folder: Path) -> Any:
    try:
        return kind.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # as many kinds as its fields
        raise _unreadable(folder, str(folder / "config.json"), error) from error


def _labels(config: Any) -> tuple[str, ...]:
    """Those of a head that chooses one of them; a regression, or labels that don't exclude each other, have none."""
    if config.num_labels < 2 or config.problem_type not in (None, "single_label_classification"):
        return ()
    return tuple(str(config.id2label.get(number, f"LABEL_{number}")) for number in range(config.num_labels))


def _unreadable(folder: Path, what: str, error: Exception) -> FailedPrecondition:
    message = f"{what} can't be read: {type(error).__name__}: {one_line(error)}"
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)


def one_line(error: Exception) -> str:
    """The first line of a library's error, which may go on for pages."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
