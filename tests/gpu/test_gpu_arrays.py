"""On a GPU: arrays that are copied together arrive as they left; kept maps of rows that ask for different heads, layers and
words, and kept states of spans, are those that a CPU keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers import kept_maps
from bertscope_service.analyses.observers.kept_maps import KeptMaps
from bertscope_service.encoders.size_limits import LIMITS
from bertscope_service.encoders.transfers import PACKED_BYTES, place_arrays, to_host
from bertscope_service.probing import states as span_states
from bertscope_service.probing.states import SpanStates
from numpy.typing import NDArray

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


HEADS, LENGTHS = 4, (7, 5, 7, 1)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Asked:
    """What is requested of a row."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    words: NDArray[np.int64] | None = None


ROWS = (
    Asked((0, 2), (0, 1, 2, 3)),
    Asked((1,), (3, 0), torch.float16),
    Asked((0, 1, 2), (2,), words=np.array([0, 1, 1, 2, 3, 3, 3])),
    Asked((2,), (0, 1), words=np.array([0])),
)


def kept_maps_of(rows: tuple[Asked, ...], device: torch.device) -> list[torch.Tensor]:
    """Returns the maps that are kept of random ones."""
    torch.manual_seed(1)
    held = KeptMaps(rows, LENGTHS, HEADS, device)
    for layer in sorted({layer for row in rows for layer in row.layers}):
        held.take(layer, torch.rand((len(LENGTHS), HEADS, 7, 7), dtype=torch.float32, device=CPU).to(device))
    return [maps.cpu() for maps in held.maps]


@pytest.mark.parametrize(
    ("rows", "map_bytes"),
    [
        (ROWS, LIMITS["cuda"].map_bytes),
        (ROWS, 0),
        (ROWS[:1] * 4, LIMITS["cuda"].map_bytes),
        (ROWS[2:3] * 2 + ROWS[:1] + ROWS[3:], LIMITS["cuda"].map_bytes),
    ],
    ids=["mixed, together", "mixed, one by one", "alike", "words"],
)
def test_all_rows_have_their_maps(rows: tuple[Asked, ...], map_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(LIMITS["cuda"], map_bytes=map_bytes)
    monkeypatch.setattr(kept_maps, "size_limits", lambda device: limits)
    words = (None if row.words is None else row.words[:length] for row, length in zip(rows, LENGTHS, strict=True))
    rows = tuple(replace(row, words=one) for row, one in zip(rows, words, strict=True))
    for found, wanted in zip(kept_maps_of(rows, DEVICE), kept_maps_of(rows, CPU), strict=True):
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


SHAPE, CHOSEN = (6, 2, 4), torch.tensor([4, 0, 3])


def kept_states(device: torch.device) -> SpanStates:
    """Returns the states of spans, standardised."""
    states = SpanStates(SHAPE, device, on_disk=False)
    states.add(np.random.default_rng(1).normal(size=SHAPE).astype(np.float32))
    if device.type != "cpu" and states.make_room():
        states.bring(slice(0, 4))
        states.bring(slice(4, 6))
        states.end_bringing()
    states.measure(slice(0, 5))
    states.standardise(5)
    states.settle(slice(0, 6))
    states.end_settling()
    return states


@pytest.mark.parametrize("fits", [True, False])
def test_states_are_read_where_they_fit(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(LIMITS["cuda"], kept_bytes=4 * 48 - (not fits))
    monkeypatch.setattr(span_states, "size_limits", lambda device: limits if device.type == "cuda" else LIMITS["cpu"])
    there, here = kept_states(DEVICE), kept_states(CPU)
    assert (there.values.device.type, here.values.device.type) == ("cuda" if fits else "cpu", "cpu")
    for chosen in (slice(1, 4), CHOSEN):
        torch.testing.assert_close(there.read(chosen, slice(1, 2)).cpu(), here.read(chosen, slice(1, 2)), rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("pretended")
def test_reading_states_on_the_device_waits_for_nothing() -> None:
    states = kept_states(DEVICE)
    with watching() as seen:
        states.read(CHOSEN)
        states.read(slice(0, 3))
    assert not seen.waits, str(seen)
