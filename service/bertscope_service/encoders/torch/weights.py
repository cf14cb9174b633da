"""Saves the weights of a torch module, and measures their memory and how many are not zero."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def save_checkpoint(model: Any, weights: Mapping[str, torch.Tensor], folder: Path, dtype: torch.dtype | None = None) -> None:
    """Writes config.json and model.safetensors of a transformers model into an existing folder.

    `weights` are written in place of its own, each memory under one name; `dtype` is their number format, the model's unless
    given. Raises OSError, SafetensorError.
    """
    config = copy.deepcopy(model.config)
    config.dtype, config.architectures = str(dtype or model.dtype).removeprefix("torch."), [type(model).__name__]
    config.save_pretrained(folder)
    stored = {name: values.detach().contiguous() for name, values in weights.items()}
    save_file(stored, folder / "model.safetensors", {"format": "pt"})


def resident_bytes(module: torch.nn.Module) -> int:
    """Returns the memory of all weights of a module, buffers included; shared ones count once."""
    found = chain(_parameters(module), module.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in _once(found))


def nonzero_parameters(module: torch.nn.Module, tied: torch.nn.Module | None = None) -> int:
    """Returns how many numbers among a module's parameters are not zero; shared ones count once. Copies the largest.

    `tied` is the part whose weight is another's too: a copy of it in another layout does not count.
    """
    return sum(int(torch.count_nonzero(_dense(tensor))) for tensor in _once(_parameters(module, tied)))


def _parameters(module: torch.nn.Module, tied: torch.nn.Module | None = None) -> Iterator[torch.Tensor]:
    """Yields the parameters that PyTorch knows, and tensors that modules hold in their own layout: packed, quantised."""
    for child in module.modules():
        yield from child.parameters(recurse=False)
        if child is not tied:
            yield from _tensors(vars(child).values())


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, torch.ScriptObject) and hasattr(value, "unpack"):
            yield from _tensors(value.unpack())  # packed by torch.ops.quantized: weight and bias


def _once(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yields each memory once. Packed tensors don't expose theirs; each of them counts as its own."""
    seen = dict[int, torch.Tensor]()
    for tensor in tensors:
        place = tensor.data_ptr() if tensor.layout is torch.strided and tensor.numel() else id(tensor)
        if place not in seen:
            seen[place] = tensor  # kept alive, so that no other gets its address
            yield tensor


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()
