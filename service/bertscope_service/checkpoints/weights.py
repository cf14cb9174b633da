"""Compares the tensors in safetensors files, by their headers, with those that a config implies."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from bertscope_service.checkpoints.config import CheckedConfig
from bertscope_service.encoders.refusals import refused, unreadable
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.checkpoints import one_line, outline_of
from bertscope_service.encoders.torch.quantization import INT8, QUANTIZATION_KEY, WEIGHT_ONLY
from bertscope_service.encoders.weight_headers import FLOATS, Stored

OLD_NAMES = ((".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias"))
"""TensorFlow's names with their names of today; transformers reads both."""

Shapes = Mapping[str, tuple[int, ...]]


def check_weights(path: Path, config: CheckedConfig, architecture: str, tensors: Mapping[str, Stored]) -> list[Stored]:
    """Returns the tensors that a checkpoint's model is read from. `path` is that of the config.json.

    Raises FailedPrecondition if one is missing, or has another shape or number format than the config implies.
    """
    kind = ARCHITECTURES[architecture]
    base = f"{kind.base}."
    shapes = expected(path, config, architecture, len(tensors))
    named = dict(_named(shapes, base, tensors))
    _check_layers(path, shapes, base, named, architecture, config.values)
    used: list[Stored] = []
    lost: list[str] = []
    for name, shape in shapes.items():
        found = _find(path, name, shape, named, config)
        used += found
        # A model without a head, or with a part of one, is hosted without the head's capability.
        if not found and name.startswith(base) and not kind.optional(name):
            lost.append(name)
    if lost:
        message = f"{_files(tensors)} and {path} don't fit each other: {len(lost)} of the weights are missing, first {lost[0]}"
        raise unreadable(path.parent, message)
    if config.quantization and all(stored.dtype in FLOATS for stored in used):
        raise refused(path, QUANTIZATION_KEY, config.quantization.kind, f"{_files(tensors)} has no weights in that format")
    return used


def expected(path: Path, config: CheckedConfig, architecture: str, tensors: int) -> Shapes:
    """Returns the shapes of all parameters by their names, of the model that transformers makes of a config.

    The model has no memory, and not many more parts than there are `tensors`. Raises FailedPrecondition.
    """
    values = copy.deepcopy(config.values)
    values.sinusoidal_pos_embds = False  # DistilBERT would compute them, which may take hours
    try:
        model = outline_of(values, architecture, config.pruned, torch.float32, tensors)
    except Exception as error:  # the classes raise errors of many kinds
        raise unreadable(path.parent, f"{path} describes no model: {type(error).__name__}: {one_line(error)}") from error
    return {name: tuple(values.shape) for name, values in model.named_parameters(remove_duplicate=False)}


def _named(shapes: Shapes, base: str, tensors: Mapping[str, Stored]) -> Iterator[tuple[str, Stored]]:
    """Yields tensors by their whole names of today; those of a model without a head lack its base."""
    first: dict[str, Stored] = {}
    below = tuple({f"{name.removeprefix(base).partition('.')[0]}." for name in shapes if name.startswith(base)})
    for written, stored in tensors.items():
        name = written
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        if not name.startswith(base) and name not in shapes and name.startswith(below):
            name = base + name
        if name in first:
            raise refused(stored.file, "a tensor's name", written, f"{first[name].name} is the same weight; keep one of them")
        first[name] = stored
        yield name, stored


def _check_layers(
    path: Path, shapes: Shapes, base: str, named: Mapping[str, Stored], architecture: str, config: object
) -> None:
    """Raises FailedPrecondition if there are weights of more layers than the config has."""
    layer = re.compile(rf"({re.escape(base)}.+?\.)(\d{{1,9}})\.")
    prefixes = {match[1] for name in shapes if (match := layer.match(name))}
    numbers = {int(match[2]) for name in named if (match := layer.match(name)) and match[1] in prefixes}
    key = "num_hidden_groups" if hasattr(config, "num_hidden_groups") else "num_hidden_layers"
    count = int(getattr(config, key))
    if numbers and max(numbers) >= count:
        raise refused(path, key, count, f"there are weights of {max(numbers) + 1}; correct it, or save the model with fewer")


def _find(path: Path, name: str, shape: tuple[int, ...], named: Mapping[str, Stored], config: CheckedConfig) -> list[Stored]:
    """Returns the tensors that a parameter is read from; none if it is missing."""
    kind = config.quantization.kind if config.quantization else ""
    if kind == WEIGHT_ONLY and f"{name}_codes" in named and config.quantization:
        return _dictionary(name, shape, named, config.quantization.bits)
    stored = named.get(name)
    if stored is None:
        return []
    if stored.shape != shape:
        allowed = f"{path.name} requires {list(shape)}"
        if "classifier" in name and stored.shape[1:] == shape[1:]:
            allowed = f"{path.name} names {shape[0]} labels (id2label)"
        raise refused(stored.file, f"the shape of {name}", list(stored.shape), allowed)
    if kind == INT8 and stored.dtype == "I8":
        return [stored, _part(named, stored, f"{name}_scale", "F32", (shape[0],))]
    if stored.dtype not in FLOATS:
        raise refused(stored.file, f"the number format of {name}", stored.dtype, f"allowed are {', '.join(FLOATS)}")
    return [stored]


def _dictionary(name: str, shape: tuple[int, ...], named: Mapping[str, Stored], bits: int) -> list[Stored]:
    """Returns the parts of a weight in few bits."""
    codes, values = named[f"{name}_codes"], math.prod(shape)
    parts = [
        _part(named, codes, f"{name}_codes", "U8", (-(-values * bits // 8),)),
        _part(named, codes, f"{name}_centroids", "F32", (2**bits,)),
        _part(named, codes, f"{name}_outlier_places", "I32", None),
        _part(named, codes, f"{name}_outliers", "F32", None),
        _part(named, codes, f"{name}_shape", "I64", (len(shape),)),
    ]
    if parts[2].shape != parts[3].shape or len(parts[2].shape) != 1:
        raise refused(codes.file, f"the shape of {name}_outliers", list(parts[3].shape), "there must be one for each place")
    written = tuple(_integers(parts[4], 8))
    if written != shape:
        raise refused(codes.file, f"{name}_shape", list(written), f"config.json requires {list(shape)}")
    places = _integers(parts[2], 4)
    if places and (min(places) < 0 or max(places) >= values):
        strange = min(places) if min(places) < 0 else max(places)
        raise refused(codes.file, f"an entry of {name}_outlier_places", strange, f"allowed are 0 to {values - 1}")
    return parts


def _part(named: Mapping[str, Stored], beside: Stored, name: str, dtype: str, shape: tuple[int, ...] | None) -> Stored:
    """Returns a tensor that belongs to a quantised one."""
    found = named.get(name)
    if found is None:
        raise unreadable(beside.file.parent, f"{beside.file} has {beside.name} and lacks {name}; save the model again")
    if found.dtype != dtype or (shape is not None and found.shape != shape):
        allowed = f"it must be {dtype}{'' if shape is None else f' {list(shape)}'}"
        raise refused(found.file, name, f"{found.dtype} {list(found.shape)}", allowed)
    return found


def _integers(stored: Stored, width: int) -> Sequence[int]:
    """Returns the numbers of a small tensor of signed integers."""
    with stored.file.open("rb") as file:
        file.seek(stored.begin)
        return memoryview(file.read(stored.end - stored.begin)).cast("i" if width == 4 else "q").tolist()


def _files(tensors: Mapping[str, Stored]) -> str:
    names = sorted({str(stored.file) for stored in tensors.values()})
    return names[0] if len(names) == 1 else "the safetensors files"
