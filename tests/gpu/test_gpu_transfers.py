"""On a GPU: arrays that are copied together arrive as they left, whatever their number formats and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.encoders.transfers import PACKED_BYTES, place_arrays, to_host

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu.recording import watching

NUMBERS = np.arange(12, dtype=np.float32)
ARRAYS = [np.array([True, False, True]), NUMBERS.reshape(3, 4).T, np.zeros((3, 0), dtype=np.int64), NUMBERS.astype(np.float16)]


def on_host(tensors: Sequence[torch.Tensor]) -> list[np.ndarray[Any, Any]]:
    """Returns tensors on the host once they are there."""
    copied = to_host(tensors)
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    return [tensor.numpy() for tensor in copied]


@pytest.mark.parametrize("more", [[], [np.arange(9)], [np.ones(PACKED_BYTES, dtype=np.uint8)]], ids=["small", "wide", "large"])
def test_arrays_travel_there_and_back(more: list[np.ndarray[Any, Any]]) -> None:
    arrays = [*ARRAYS, *more]
    placed = place_arrays(DEVICE, *arrays)
    back = on_host(placed)
    for array, tensor, found in zip(arrays, placed, back, strict=True):
        assert (tensor.device.type, found.dtype, found.shape) == ("cuda", array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)


def test_parts_of_tensors_are_copied_as_they_are() -> None:
    (whole,) = place_arrays(DEVICE, NUMBERS.reshape(3, 4))
    column, row = on_host([whole[:, 1], whole[2]])
    assert column.tolist() == [1, 5, 9]
    assert row.tolist() == [8, 9, 10, 11]


@pytest.mark.usefixtures("pretended")
def test_small_arrays_take_one_copy() -> None:
    with watching() as seen:
        on_host(place_arrays(DEVICE, *ARRAYS))
    assert (seen.to_device.total(), seen.to_host.total(), seen.waits.total()) == (1, 1, 0), str(seen)
