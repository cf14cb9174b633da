"""The result of TrainProbe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.probing.training import Score


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Holds what came of probes that were trained together. Arrays are [layers, groups]: groups of the task, then of the
    control task, one a seed.

    best_epoch: int64, from 1. gradient: of probes trained to the minimum, float64. test: None without test spans. hits: of each
    layer and each text with a scored span, its spans that probes of the task classify correctly, summed over seeds, int64
    [layers, texts]; of numbers the squared errors of its spans, in the unit of standardised numbers, float64.
    """

    best_epoch: NDArray[np.int64]
    dev: Score
    test: Score | None
    gradient: NDArray[np.float64] | None
    hits: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The result of TrainProbe.

    mix: of the mixes of the first 1, 2, ... layers, without a control task. mixing: float64 [seeds, 1 + layers], gamma and the
    share of each layer in the mix of all. best_layer: index of the layer. confusion: int64 [classes, classes], rows the true
    class; of numbers [0, 0]. variances: those of the standardised numbers of dev and of scored spans, float64 [2, groups]; None
    of classes. weights: those of the first seed, [layers, hidden, outputs], and biases [layers, outputs], for states as the
    model gives them; then those of the output of a hidden layer; empty unless asked for.
    """

    probes: Outcome
    mix: Outcome | None
    mixing: NDArray[np.float64] | None
    best_layer: int
    confusion: NDArray[np.int64]
    variances: NDArray[np.float64] | None
    weights: tuple[NDArray[np.float32], ...]
