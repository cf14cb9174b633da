"""Moves arrays between the host and a device, several in one copy: a copy takes longer to start than a few KiB take to move."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.device_memory import pinned_results

ALIGNED_BYTES = 16
"""Each array of a copy to the device begins at a multiple, as the numbers of all formats have to."""

PACKED_BYTES = 1024 * 1024
"""Results above are copied one by one: the copies take longer than to start them, and packing takes memory and time."""


def place_arrays(device: torch.device, *arrays: NDArray[Any] | torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns arrays of the host on a device, copied all at once, without making the host wait for the device; on a CPU, as
    tensors that share their memory."""
    # Not as_tensor, which takes four times as long.
    tensors = tuple([torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in arrays])
    if device.type != "cuda" or not tensors:
        return tensors
    ends = list(accumulate(-(-tensor.nbytes // ALIGNED_BYTES) * ALIGNED_BYTES for tensor in tensors))
    begins = [0, *ends[:-1]]
    packed = torch.empty(ends[-1], dtype=torch.uint8, device="cpu", pin_memory=True)
    for part, tensor in zip(_views(packed, begins, tensors), tensors, strict=True):
        part.copy_(tensor)
    return tuple(_views(packed.to(device, non_blocking=True), begins, tensors))


def to_host(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Starts to copy tensors of a GPU to the host, at once if they are small. The host must not read them before an event that
    is recorded after this call."""
    if len(tensors) < 2 or sum(tensor.nbytes for tensor in tensors) > PACKED_BYTES:
        return tuple(_to_host(tensor) for tensor in tensors)
    # The largest numbers come first, so that all begin at multiples of their size.
    order = sorted(range(len(tensors)), key=lambda index: -tensors[index].itemsize)
    ordered = [tensors[index] for index in order]
    packed = _to_host(torch.cat([tensor.contiguous().view(-1).view(torch.uint8) for tensor in ordered]))
    begins = [0, *accumulate(tensor.nbytes for tensor in ordered[:-1])]
    copied = dict(zip(order, _views(packed, begins, ordered), strict=True))
    return tuple(copied[index] for index in range(len(tensors)))


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    copy = tensor.to("cpu", non_blocking=True)
    pinned_results.add(copy)
    return copy


def _views(packed: torch.Tensor, begins: Sequence[int], like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the parts of bytes that begin there, each with the number format and the shape of a tensor."""
    places = zip(begins, like, strict=True)
    return [packed[begin : begin + one.nbytes].view(one.dtype).view(one.shape) for begin, one in places]
