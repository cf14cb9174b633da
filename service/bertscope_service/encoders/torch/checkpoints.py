"""Reads a checkpoint folder into a transformers model: its class, its labels, its removed heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.heads import Head, chooses_several, head_of, labels_of, regresses
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.building import Assembly, fill_missing, outline
from bertscope_service.encoders.torch.former_names import named_today
from bertscope_service.encoders.torch.next_sentence import holds_next_sentence_head, with_next_sentence_head
from bertscope_service.encoders.torch.pruning import Heads, read_pruned, shrunk
from bertscope_service.encoders.torch.quantization import (
    QUANTIZATION_KEY,
    IntegerMatrix,
    Quantization,
    decode_weights,
    read_quantization,
)
from bertscope_service.encoders.torch.token_elimination import read_kept_shares
from bertscope_service.encoders.torch.weight_readers import read_tensors
from bertscope_service.encoders.weight_files import weight_files
from bertscope_service.encoders.weight_headers import read_headers
from bertscope_service.errors import FailedPrecondition

PARTS_PER_TENSOR, HEAD_PARTS = 4, 64
"""Most parameters of a model for each tensor of its checkpoint, and of a head that it may lack."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as it was read, on the CPU.

    head: what it predicts. missing: names of the parameters that the weights lack, so that they are random; only parameters of
    a head. labels: those of its head, in order; empty without such a head. pruned: the removed heads. kept_shares: the kept
    share of a text's tokens after each layer; empty if none is dropped. quantization: how the weights were stored, which are
    decoded here; integers: weights that were integers, by name. relates: whether the model has a next-sentence head.
    """

    model: Any
    head: Head
    missing: frozenset[str]
    labels: tuple[str, ...]
    pruned: dict[int, tuple[int, ...]]
    kept_shares: tuple[float, ...] = ()
    quantization: Quantization | None = None
    integers: Mapping[str, IntegerMatrix] = field(default_factory=dict)
    relates: bool = False

    @property
    def capabilities(self) -> Capabilities:
        """The head's; all false if some of its weights are missing."""
        if self.missing:
            return Capabilities(next_sentence=self.relates)
        config, sequence = self.model.config, self.head is Head.SEQUENCE
        several, value = sequence and chooses_several(config), sequence and regresses(config)
        return Capabilities(
            masked_lm=self.head is Head.MASKED_LM,
            classification=sequence and not several and not value and len(self.labels) > 1,
            next_sentence=self.relates,
            token_classification=self.head is Head.TOKENS,
            question_answering=self.head is Head.ANSWERS,
            multi_label=several,
            regression=value and config.num_labels == 1,
        )


def read_checkpoint(folder: Path, name: str, dtype: torch.dtype) -> Checkpoint:
    """Reads config.json and safetensors; never pickle, never code. `name` is the `model_type` of the config.

    Weights in few bits are decoded, and the model's config does not mention them. An incomplete head counts as none, and
    so does a next-sentence head that is not finite. Raises FailedPrecondition if other weights are missing, or any are broken
    or don't fit the config.
    """
    kind = ARCHITECTURES[name]
    config = _read_config(transformers.CONFIG_MAPPING[name], folder)
    try:
        pruned, kept_shares, quantization = read_pruned(config), read_kept_shares(config), read_quantization(config)
    except ValueError as error:
        raise FailedPrecondition(f"{folder / 'config.json'}: {error}", "SOURCE_UNREADABLE", source=folder) from error
    if getattr(config, "quantization_config", None) is not None:
        message = f"the weights in {folder} are quantised by another program, which bertscope can't read; load the original"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)
    integers: Mapping[str, IntegerMatrix] = {}
    try:
        stored = named_today(kind, read_headers(weight_files(folder)))
        weights: Iterable[tuple[str, torch.Tensor]] = read_tensors(stored)
        decoded: Mapping[str, torch.Tensor] = {}
        if quantization is not None:
            decoded, integers = decode_weights(dict(weights), quantization)
            weights = decoded.items()
            delattr(config, QUANTIZATION_KEY)
        relates = _head(kind, config) is Head.MASKED_LM and holds_next_sentence_head(kind, config, stored, decoded, dtype)
        model = outline_of(config, name, pruned, dtype, len(stored), relates=relates)
        assembly = Assembly(model, dtype)
        for stored_name, tensor in weights:
            assembly.put(stored_name, tensor)
        # A head that is left out may have been stored in integers, too.
        integers = {stored_name: matrix for stored_name, matrix in integers.items() if assembly.name_of(stored_name)}
        found = assembly.finish()
        needed = f"{kind.base}."
        lost = sorted(key for key in found.missing if key.startswith(needed) and not kind.optional(key))
        lost += found.misshapen
        if not lost:
            fill_missing(model, sum(tensor.numel() for tensor in model.parameters() if tensor.device.type != "meta"))
    except FailedPrecondition:
        raise
    except Exception as error:
        # transformers and PyTorch raise a dozen classes here; for all of them this folder can't be read.
        raise _unreadable(folder, f"the weights in {folder}", error) from error
    if lost:
        message = f"the weights in {folder} don't fit its config.json: {len(lost)} are missing or misshapen, first {lost[0]}"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)
    if not model.config.num_hidden_layers:
        raise FailedPrecondition(f"the model in {folder} has no layers", "SOURCE_UNREADABLE", source=folder)
    labels = () if found.missing else labels_of(config)
    return Checkpoint(model, _head(kind, config), found.missing, labels, pruned, kept_shares, quantization, integers, relates)


def outline_of(config: Any, name: str, pruned: Heads, dtype: torch.dtype, tensors: int, *, relates: bool = False) -> Any:
    """Returns the model of a config without memory for its parameters; `tensors` is the number in its checkpoint, `relates`
    says whether it has a next-sentence head.

    Changes the config, and raises, as `outline` does.
    """
    kind = ARCHITECTURES[name]
    what: Callable[[Any], Any] = shrunk(kind.class_of(_head(kind, config)), pruned)
    if relates:
        what = with_next_sentence_head(what, kind)
    # Removed heads have no weights; apart from them, a model has little more than its checkpoint.
    return outline(what, config, dtype, PARTS_PER_TENSOR * tensors + HEAD_PARTS)


def _head(kind: type[Architecture], config: Any) -> Head:
    """Returns the head to read; one that transformers lacks for an architecture counts as a masked-LM head that is missing."""
    head = head_of(config)
    return head if kind.name_of(head) is not None else Head.MASKED_LM


def _read_config(kind: Any, folder: Path) -> Any:
    try:
        return kind.from_json_file(folder / "config.json")
    except Exception as error:  # each field has its own errors
        raise _unreadable(folder, str(folder / "config.json"), error) from error


def _unreadable(folder: Path, what: str, error: Exception) -> FailedPrecondition:
    message = f"{what} can't be read: {type(error).__name__}: {one_line(error)}"
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)


def one_line(error: Exception) -> str:
    """Returns the first line of a library's error, which may have many."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
