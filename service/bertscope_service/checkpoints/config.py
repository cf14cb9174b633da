"""Checks a config.json, and that the service supports it; builds nothing of its size."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import transformers

from bertscope_service.checkpoints.bounds import BOUNDS, MAX_LABELS, check_numbers
from bertscope_service.encoders.heads import Head, head_of
from bertscope_service.encoders.refusals import refused, shown, unreadable
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.architectures.architecture import MAX_LAYERS
from bertscope_service.encoders.torch.pruning import PRUNED_KEY, read_pruned
from bertscope_service.encoders.torch.quantization import QUANTIZATION_KEY, Quantization, read_quantization
from bertscope_service.encoders.torch.shared_code import import_shared_code
from bertscope_service.encoders.torch.token_elimination import KEPT_SHARES_KEY, read_kept_shares

OUR_KEYS = frozenset({PRUNED_KEY, QUANTIZATION_KEY, KEPT_SHARES_KEY})
OURS = "bertscope_"
"""Prefix of keys that only this program reads."""

MAX_LABEL_BYTES = 1024 * 1024
"""Maximum size of all names of labels together: every description of the model contains them."""

ANSWER_SCORES = 2
"""Scores of a token by a question answering head: as an answer's first and last token."""

PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")

UNSUPPORTED = {
    "is_encoder_decoder": "bertscope hosts encoders",
    "add_cross_attention": "bertscope hosts encoders",
    "quantization_config": "weights that other programs quantised can't be read; load the model that they were made from",
    "per_layer_config": "all layers must have the same settings",
    "pruned_heads": f"removed heads must be listed in {PRUNED_KEY}, as bertscope writes it; prune the whole model here",
    "is_folding_model": "bertscope hosts language models of proteins, not their folding",
    "chunk_size_feed_forward": "feed-forward networks are never run in chunks; leave it out",
}
"""Keys that must be missing, null, false, 0 or empty."""

OPTIONAL = ("pad_token_id", "classifier_dropout")
"""Numbers that may be null."""

ACTIVATIONS = ("hidden_act", "activation", "hidden_activation", "classifier_activation", "summary_activation")


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A config with possible values: as transformers reads it, with the removed heads and the storage of weights."""

    values: Any
    pruned: Mapping[int, tuple[int, ...]]
    quantization: Quantization | None


def check_config(path: Path, written: Mapping[str, Any], architecture: str) -> CheckedConfig:
    """Reads the config of a checkpoint of transformers; `written` is its JSON. Raises FailedPrecondition."""
    check_numbers(path, written)
    _check_keys(path, written, architecture)
    _check_lists(path, written)
    kind = transformers.CONFIG_MAPPING[architecture]
    try:
        config = kind.from_dict(copy.deepcopy(dict(written)))
        sizes = {key: getattr(config, key) for key in BOUNDS if hasattr(config, key)}
    except Exception as error:  # every field may raise a class of its own
        lines = " ".join(str(error).split())
        message = f"{path} can't be read: {type(error).__name__}: {lines[:300]}"
        raise unreadable(path.parent, message) from error
    # Checked again, because keys may have two names or be derived.
    check_numbers(path, sizes)
    lost = next((key for key, value in sizes.items() if value is None and key not in OPTIONAL), None)
    if lost is not None:
        raise refused(path, lost, None, f"allowed are {BOUNDS[lost]}; leave it out, or write a number")
    _check_sizes(path, config, architecture)
    _check_names(path, config)
    head = head_of(config)
    if head.names_labels:
        _check_labels(path, config)
    if head is Head.ANSWERS and config.num_labels != ANSWER_SCORES:
        raise refused(path, "the number of labels in id2label", config.num_labels, "an answer has two scores: start and end")
    try:
        read_kept_shares(config)
        return CheckedConfig(config, read_pruned(config), read_quantization(config))
    except ValueError as error:
        raise unreadable(path.parent, f"{path}: {error}") from error


def _check_keys(path: Path, written: Mapping[str, Any], architecture: str) -> None:
    """Refuses keys of unsupported features, and keys that would replace a part of transformers' own config object."""
    kind = transformers.CONFIG_MAPPING[architecture]
    settings = {field.name for field in fields(kind)} | {*kind.attribute_map, "model_type"}
    for key, value in written.items():
        if key in UNSUPPORTED and value:
            raise refused(path, key, value, UNSUPPORTED[key])
        if key.startswith(OURS) and key not in OUR_KEYS:
            raise refused(path, key, value, "this version does not support that key; load it with the bertscope that wrote it")
        part = inspect.getattr_static(kind, key, None)
        settable = isinstance(part, property) and part.fset is not None
        if key.startswith("__") or not (key in settings or part is None or settable):
            raise refused(path, shown(key), value, "that is no setting; remove it")


def _check_lists(path: Path, written: Mapping[str, Any]) -> None:
    """Checks that lists of names or labels are lists, and not too long."""
    architectures = written.get("architectures")
    if architectures is not None and not (
        isinstance(architectures, list) and all(isinstance(one, str) for one in architectures)
    ):
        raise refused(path, "architectures", architectures, "it must be a list of names of classes")
    layer_types = written.get("layer_types")
    if layer_types is not None and not (isinstance(layer_types, list) and all(isinstance(one, str) for one in layer_types)):
        raise refused(path, "layer_types", layer_types, f"it must be a list of up to {MAX_LAYERS} names")
    labels = written.get("id2label")
    if labels is not None and not isinstance(labels, Mapping):
        raise refused(path, "id2label", labels, 'it must be an object like {"0": "negative", "1": "positive"}')
    if labels is not None and len(labels) > MAX_LABELS:
        raise refused(path, "the number of labels in id2label", len(labels), f"allowed are up to {MAX_LABELS}")
    if written.get("problem_type") not in (None, *PROBLEMS):
        raise refused(path, "problem_type", written["problem_type"], f"allowed are {', '.join(PROBLEMS)}")


def _check_sizes(path: Path, config: Any, architecture: str) -> None:
    """Checks that the numbers fit each other."""
    heads = config.num_attention_heads
    for key in _widths(config):
        size = getattr(config, key)
        if size % heads:
            raise refused(path, "num_attention_heads", heads, f"it must divide {key}, {size}")
    padding, entries = getattr(config, "pad_token_id", None), config.vocab_size
    if padding is not None and padding >= entries:
        raise refused(path, "pad_token_id", padding, f"allowed are 0 to {entries - 1}, or null")
    try:
        fault = next(iter(ARCHITECTURES[architecture].faults(config)), None)
    except (TypeError, ValueError, ArithmeticError) as error:
        # A value is of another kind than it should be, such as a number where names are listed.
        raise unreadable(path.parent, f"{path} describes no model: {type(error).__name__}: {error}") from error
    if fault is not None:
        raise refused(path, *fault)


def _widths(config: Any) -> Iterator[str]:
    """Yields the keys of the widths that heads share."""
    if hasattr(config, "true_hidden_size"):
        yield "true_hidden_size"
    elif hasattr(config, "dim"):
        yield "dim"
    else:
        yield "hidden_size"


def _check_names(path: Path, config: Any) -> None:
    """Checks that activations and number formats are known."""
    import_shared_code()  # of which the activations are a part
    known = transformers.activations.ACT2FN
    for key in ACTIVATIONS:
        name = getattr(config, key, None)
        if name is not None and not isinstance(name, bool) and name not in known:
            raise refused(path, key, name, f"allowed are {', '.join(sorted(known))}")
    if config.dtype is not None and not isinstance(_format(config.dtype), torch.dtype):
        raise refused(path, "dtype", config.dtype, "allowed are float32, float16 and bfloat16")


def _format(written: Any) -> Any:
    return getattr(torch, written, None) if isinstance(written, str) else written


def _check_labels(path: Path, config: Any) -> None:
    """Checks that a classifier's labels are numbered from 0 without gaps, and have names."""
    labels, count = config.id2label, config.num_labels
    if count < 1 or set(labels) != set(range(count)):
        raise refused(path, "id2label", sorted(labels)[:8], f"it must name each label once, from 0 to {max(0, count - 1)}")
    strange = next((name for name in labels.values() if not isinstance(name, (str, int, float))), None)
    if strange is not None or None in labels.values():
        raise refused(path, "a label in id2label", strange, "labels are texts")
    size = sum(len(str(name).encode("utf-8", "replace")) for name in labels.values())
    if size > MAX_LABEL_BYTES:
        raise refused(path, "the size of all labels in id2label", size, f"allowed are up to {MAX_LABEL_BYTES} bytes")
