"""Mixes of layers: which layers a probe takes what it needs from (Tenney, Das and Pavlick 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.values.columns import Column, named
from bertscope.values.display import ShownAsTable, record
from bertscope.values.intervals import Interval

__all__ = ["CumulativeProbe", "LayerMix"]


@record
class CumulativeProbe:
    """A probe on the mix of all layers up to one. The accuracy and the loss are means over seeds."""

    layer: int
    """The last layer of the mix: 0, the embeddings, to the number of layers."""
    accuracy: float
    """Share of the scored spans classified correctly."""
    interval: Interval
    """The interval of that share, 95 %, by a bootstrap over texts."""
    loss: float
    """Mean cross-entropy, nats."""
    best_epochs: tuple[int, ...]
    """The epoch of each seed whose weights were kept, from 1."""


@record
class LayerMix(ShownAsTable):
    """Probes that read gamma times the mean of all layers' standardised states, weighted by the softmax of a trained number a
    layer (Tenney, Das and Pavlick 2019, section 3)."""

    _table = (
        Column("layer"),
        Column("share", form="%"),
        Column("accuracy", "up to it", "%", ends=("low", "high")),
        *named("low", "high"),
        Column("gain", form="+%"),
        Column("loss", form=".3f", unit="nats"),
    )

    shares: npt.NDArray[np.float64]
    """The share of each layer in the mix of all, of each seed, [seeds, layers]; a seed's sum to 1."""
    scales: tuple[float, ...]
    """Gamma of each seed."""
    cumulative: tuple[CumulativeProbe, ...]
    """Probes on the mix of the layers up to each; the last reads all."""

    @property
    def mixing_weights(self) -> npt.NDArray[np.float64]:
        """The share of each layer, [layers]: the mean over seeds."""
        mean: npt.NDArray[np.float64] = self.shares.mean(axis=0)
        return mean

    @property
    def centre_of_gravity(self) -> float:
        """The mean layer, weighted by the shares."""
        return float(self.mixing_weights @ [one.layer for one in self.cumulative])

    @property
    def gains(self) -> npt.NDArray[np.float64]:
        """The accuracy that each layer after the first adds to that of the mix of those before it, [layers - 1]."""
        return np.diff([one.accuracy for one in self.cumulative])

    @property
    def expected_layer(self) -> float | None:
        """The mean layer after the first, weighted by the gains; None if the last mix is not better than the first layer.

        Gains may be negative, so that it may lie outside the layers where the sum of gains is small.
        """
        total = float(self.gains.sum())
        return float(self.gains @ [one.layer for one in self.cumulative[1:]]) / total if total > 0 else None

    def _rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer, with the values of the table's columns."""
        gains = [None, *self.gains.tolist()]
        return [
            (one.layer, float(share), one.accuracy, *one.interval, gain, one.loss)
            for one, share, gain in zip(self.cumulative, self.mixing_weights, gains, strict=True)
        ]
