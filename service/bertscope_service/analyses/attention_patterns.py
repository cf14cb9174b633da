"""Classifies attention maps by their pattern, as Kovaleva et al. (2019, section 4.1) do by eye and with a network.

They released neither their 400 labelled maps nor the network, so this classifier is bertscope's own: four features, each with
a threshold, and a rule. docs/attention.md says how often it agrees with maps that were built and with labels that were given
by eye.

Rows of special tokens are left out, and so are cells beside the diagonal in columns of special tokens: attention of the first
word to [CLS] is attention to a special token and to the previous one at once. All other cells are special, near (a token
itself and its neighbours, in its own text), far (the rest of its own text) or of the other text. Let m be the mass of each
kind, over rows of words, and c its share of cells; the excess of a mass over its share of cells, excess(m, c) = max(0, (m - c)
/ (1 - c)), is 0 for attention that is spread over all cells alike and 1 for attention that is confined to these.

- vertical: excess of the mass on special tokens.
- diagonal: share of one's own text in the mass, times the excess of near cells in it.
- own: excess of one's own text over the other one, in the mass on words.
- spread: exp(mean entropy of rows), the number of tokens attended to, in units of one's own text.

A feature makes its pattern more likely the larger it is: its degree is feature / (2 threshold), at most 1, so 1/2 at the
threshold. Of degrees v of vertical, d of diagonal and b, the lesser one of own and spread, follow the scores min(v, 1 - d) of
vertical, min(d, 1 - v) of diagonal, min(v, d) of both, min(1 - v, 1 - d, b) of block and min(1 - v, 1 - d, 1 - b) of
heterogeneous.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.attention_statistics import MapNumber

Array = NDArray[np.float64]

VERTICAL, DIAGONAL, OWN, SPREAD = 0.15, 0.12, 0.5, 0.25
"""The threshold of each feature."""


class Pattern(IntEnum):
    """A kind of map; see bertscope.v1.AttentionPattern. If two have the same score, the first one is the class."""

    VERTICAL = 0
    DIAGONAL = 1
    VERTICAL_DIAGONAL = 2
    BLOCK = 3
    HETEROGENEOUS = 4


def scores(numbers: NDArray[Any], uniform: NDArray[Any]) -> Array:
    """Returns the score of each pattern, 0 to 1, [..., Pattern], from the numbers of maps [..., MapNumber]; all 0 for a map of
    zeros.

    uniform: the numbers of a uniform map of the same text, which broadcast with `numbers`. A text without a second one is never
    of class block.
    """
    vertical, diagonal, own, spread = features(numbers, uniform)
    v, d = (_degree(feature, threshold) for feature, threshold in ((vertical, VERTICAL), (diagonal, DIAGONAL)))
    b = np.minimum(_degree(own, OWN), _degree(spread, SPREAD))
    neither = np.minimum(1 - v, 1 - d)
    found = [np.minimum(v, 1 - d), np.minimum(d, 1 - v), np.minimum(v, d), np.minimum(neither, b), np.minimum(neither, 1 - b)]
    return np.stack(found, axis=-1) * exists(numbers)[..., None]


def exists(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns whether each map has rows that sum to 1, and not to 0 because its head was pruned away."""
    found: NDArray[np.bool_] = numbers[..., MapNumber.CONFIDENCE] > 0
    return found


def features(numbers: NDArray[Any], uniform: NDArray[Any]) -> tuple[Array, Array, Array, Array]:
    """Returns vertical, diagonal, own and spread of maps; see `scores`."""
    special, near, far, other = _masses(numbers)
    cells_special, cells_near, cells_far, cells_other = _masses(uniform)
    mass, cells = special + near + far + other, cells_special + cells_near + cells_far + cells_other
    vertical = _excess(_share(special, mass), _share(cells_special, cells))
    local = _excess(_share(near, near + far), _share(cells_near, cells_near + cells_far))
    diagonal = _share(near + far, mass) * local
    own = _excess(_share(near + far, near + far + other), _share(cells_near + cells_far, cells_near + cells_far + cells_other))
    tokens = np.exp(uniform[..., MapNumber.ENTROPY].astype(np.float64)) * (cells_near + cells_far)
    spread = _share(np.exp(numbers[..., MapNumber.WORD_ENTROPY].astype(np.float64)), tokens)
    return vertical, diagonal, own, spread


def _masses(numbers: NDArray[Any]) -> tuple[Array, Array, Array, Array]:
    """Returns the masses on special, near, far and other cells."""
    kinds = (MapNumber.FAR_SPECIAL, MapNumber.NEAR_OWN, MapNumber.FAR_OWN, MapNumber.OTHER)
    # Differences of masses that are 0 may be less by rounding.
    special, near, far, other = (numbers[..., kind].astype(np.float64).clip(min=0.0) for kind in kinds)
    return special, near, far, other


def _share(part: Array, whole: Array) -> Array:
    """Returns part / whole, 0 where the whole is 0."""
    found: Array = np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)
    return found


def _excess(mass: Array, cells: Array) -> Array:
    """Returns the excess of shares of mass over shares of cells; 0 where no other cells are left to attend to."""
    room = 1 - cells
    return np.where(room > ROUNDING, (mass - cells) / np.maximum(room, ROUNDING), 0.0).clip(0.0, 1.0)


def _degree(feature: Array, threshold: float) -> Array:
    return np.minimum(1.0, feature / (2 * threshold))


ROUNDING = 1e-5
"""A smaller share of cells is none: the shares were computed in float32."""
