"""Defines the sites of a model, and a change of the vectors there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertscope_service.encoders.sequences import TokenSequence


class Site(Enum):
    """A place in each layer where every token has a vector; see bertscope.v1.Site. ATTENTION has weights instead."""

    STATE = "state"
    HEAD_OUTPUT = "head output"
    ATTENTION_OUTPUT = "attention output"
    ACTIVATIONS = "activations"
    FEED_FORWARD_OUTPUT = "feed-forward output"
    ATTENTION = "attention"


Place: TypeAlias = tuple[Site, int]
"""A site and its layer."""

INNER = frozenset({Site.ATTENTION_OUTPUT, Site.ACTIVATIONS, Site.FEED_FORWARD_OUTPUT})
"""Sites inside a layer that are neither at its ends nor at its heads."""

Found: TypeAlias = dict[Hashable, NDArray[np.int64]]
"""Positions in one sequence, by what was looked for: equal positions of many changes are found once."""


class Finder(Protocol):
    """Finds the positions of a change in a sequence: int64, ascending. Raises InvalidArgument."""

    def __call__(self, sequence: TokenSequence, found: Found) -> NDArray[np.int64]: ...


Positions: TypeAlias = NDArray[np.int64] | Finder | None
"""Positions as they are kept: found already, to be found in each sequence, or all."""


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Sparse codes of states x: code c is active with a_c = z if z > threshold_c, else 0, where z = encoder_c . x + bias_c.

    encoder, decoder: float32 [codes, size]. biases, thresholds: float32 [codes], thresholds at least 0. gain: how often the
    sum of a_c decoder_c is added.
    """

    encoder: NDArray[np.float32]
    biases: NDArray[np.float32]
    thresholds: NDArray[np.float32]
    decoder: NDArray[np.float32]
    gain: float = 1.0

    @classmethod
    def around(
        cls,
        mean: NDArray[np.float32],
        encoder: NDArray[np.float32],
        biases: NDArray[np.float32],
        thresholds: NDArray[np.float32],
        decoder: NDArray[np.float32],
    ) -> Codes:
        """Returns codes whose encoder reads x - mean, [size]."""
        centred = (biases - encoder.astype(np.float64) @ mean).astype(np.float32)
        return cls(encoder, centred, thresholds, decoder)

    def only(self, number: int) -> Codes:
        """Returns one of the codes."""
        one = slice(number, number + 1)
        return Codes(self.encoder[one], self.biases[one], self.thresholds[one], self.decoder[one], self.gain)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change of the vectors x of one site: x := keep * x + add - left right x + gain * sum of a_c decoder_c, of `codes`.

    `layer` is 0 to layers - 1, of Site.STATE to layers. `positions` are int64, ascending, or found in each row; None means all
    tokens. `units` are heads or activations, int64, whose parts of x alone change; None means all of it, and the only choice
    with `left` and with `codes`. `add` is float32 [size], or [positions, size] with one vector for each position, of the units
    one after another; `left` [size, rank] and `right` [rank, size].

    Of Site.ATTENTION, `positions` are queries whose weights on `keys`, given likewise, are 0; of the heads `units`.
    """

    site: Site
    layer: int
    positions: Positions = None
    units: NDArray[np.int64] | None = None
    keep: float = 1.0
    add: NDArray[np.float32] | None = None
    left: NDArray[np.float32] | None = None
    right: NDArray[np.float32] | None = None
    keys: Positions = None
    codes: Codes | None = None

    def at(self, sequence: TokenSequence, found: Found) -> Change:
        """Returns the change at its positions in a sequence; `found` is what others have found there. Raises InvalidArgument if
        it has no such positions there."""
        keys = _positions(self.keys, sequence, found) if self.site is Site.ATTENTION else None
        return replace(self, positions=_positions(self.positions, sequence, found), keys=keys)


def _positions(given: Positions, sequence: TokenSequence, found: Found) -> NDArray[np.int64]:
    if given is None:
        if None not in found:
            found[None] = np.arange(len(sequence), dtype=np.int64)
        return found[None]
    return given if isinstance(given, np.ndarray) else given(sequence, found)
