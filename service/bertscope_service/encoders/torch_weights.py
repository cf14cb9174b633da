"""The weights of a torch module, wherever it keeps them: whose memory they lie in, their size, and how many are not zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import torch


def take_in(module: torch.nn.Module) -> None:
    """Copy parameters and buffers on the CPU into memory of the module's own.

    safetensors maps them from their file: a file that is overwritten while its model serves would change the model under its
    old digest, and one that is cut short would end the process.
    """
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def resident_bytes(module: torch.nn.Module) -> int:
    """Memory that all weights of a module take, buffers included; what several modules share counts once."""
    found = chain(_parameters(module), module.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in _once(found))


def nonzero_parameters(module: torch.nn.Module, tied: torch.nn.Module | None = None) -> int:
    """How many numbers among the parameters of a module are not zero; shared ones count once. Takes a copy of the largest.

    `tied` is the part whose weight is another's too: a copy of it in another layout does not count.
    """
    return sum(int(torch.count_nonzero(_dense(tensor))) for tensor in _once(_parameters(module, tied)))


def _parameters(module: torch.nn.Module, tied: torch.nn.Module | None = None) -> Iterator[torch.Tensor]:
    """Those that PyTorch knows of, and tensors that modules hold in a layout of their own: packed, quantised."""
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
            yield from _tensors(value.unpack())  # what torch.ops.quantized packs: weight and bias


def _once(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Each memory once. Packed tensors don't say where theirs is; each of them is its own."""
    seen = dict[int, torch.Tensor]()
    for tensor in tensors:
        place = tensor.data_ptr() if tensor.layout is torch.strided and tensor.numel() else id(tensor)
        if place not in seen:
            seen[place] = tensor  # kept, so that no other gets its place
            yield tensor


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()
