"""Divides the probes of a training into blocks that a device trains some milliseconds at a time.

Probes of different layers and groups share nothing while they train, so a step of many of them can be several steps. In
between, other callers' rows run, and a cancelled training ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

N = TypeVar("N", np.int64, np.float64)

TOKEN_PRODUCTS = 2_000_000
"""Multiplications that take a CPU about as long as a token of a small model: the device's rate is estimated in tokens."""
TOKEN_VALUES = 100_000
"""Numbers in memory that take as long to read and write."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive layers, and consecutive groups of each, by their indices."""

    layers: slice
    groups: slice


def blocks(layers: int, groups: int, each: int, most: int) -> Iterator[Block]:
    """Yields blocks of the probes of all layers and groups. A probe has `each` values and a block at most `most`, unless one
    probe alone has more. Layers are divided first: what probes of a layer read is read once for all of them."""
    of_layers, of_groups = max(1, most // (each * groups)), min(groups, max(1, most // each))
    for layer in range(0, layers, of_layers):
        for group in range(0, groups, of_groups):
            yield Block(slice(layer, min(layer + of_layers, layers)), slice(group, min(group + of_groups, groups)))


def slices(part: slice, size: int) -> Iterator[slice]:
    """Yields a range of spans in parts of at most so many."""
    return (slice(begin, min(begin + size, part.stop)) for begin in range(part.start, part.stop, size))


def placed(parts: Sequence[Block], values: Sequence[NDArray[N]]) -> NDArray[N]:
    """Returns the values of all probes, [layers, groups], from those of the blocks that they were divided into."""
    shape = max(part.layers.stop for part in parts), max(part.groups.stop for part in parts)
    found = np.empty(shape, dtype=values[0].dtype)
    for part, own in zip(parts, values, strict=True):
        found[part.layers, part.groups] = own
    return found


def step_tokens(products: int, values: int = 0) -> int:
    """Returns the tokens that a step counts as: one that multiplies so often, and reads or writes so many numbers."""
    return 1 + products // TOKEN_PRODUCTS + values // TOKEN_VALUES
