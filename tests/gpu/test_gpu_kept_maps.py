"""On a GPU: maps of rows that ask for different heads, layers and words are those that a CPU keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers import kept_maps
from bertscope_service.analyses.observers.kept_maps import KeptMaps
from bertscope_service.encoders.size_limits import LIMITS
from numpy.typing import NDArray

from tests.support.on_gpu import DEVICE

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


def kept(rows: tuple[Asked, ...], device: torch.device) -> list[torch.Tensor]:
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
    for found, wanted in zip(kept(rows, DEVICE), kept(rows, CPU), strict=True):
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)
