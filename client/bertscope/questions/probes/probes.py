"""Probes: their scores by layer, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bertscope.questions.probes.layer_mix import LayerMix
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.intervals import Interval
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LayerProbe", "Pooling", "ProbeEnding", "ProbePart", "ProbeProgress", "ProbeResult"]

Pooling = Literal["mean", "first", "last"]
"""How the states of a span's pieces become one vector."""
ProbeEnding = Literal["dev", "minimum"]
"""When training ends: by the loss on the dev texts, or at the minimum of what it minimises."""


@record
class ProbeProgress:
    """The progress of `train_probe`."""

    stage: str
    """"states": the model runs the texts; "training"."""
    done: int
    """Texts that were run, or epochs that were trained."""
    total: int
    """All of them. Training may end before the last epoch."""
    best_dev_accuracy: float
    """The largest share of dev spans that a layer's probe has classified correctly so far."""


@record
class ProbePart:
    """The spans of one part of the texts."""

    texts: int
    """Its texts."""
    spans: int
    """Its spans that were used."""
    truncated_spans: int
    """Its spans that were left out because they were cut away with the end of a text."""
    empty_spans: int
    """Its spans that were left out because no piece begins in them."""
    label_spans: tuple[int, ...]
    """The used spans of each class."""
    majority_correct: int
    """The used spans of the most frequent class of the training spans."""

    @property
    def majority(self) -> float:
        """The share of spans that always answering that class gets right."""
        return self.majority_correct / self.spans


@record
class LayerProbe:
    """How the probes of one layer do on the spans that were scored. Accuracies are means over seeds."""

    layer: int
    """0, the embeddings, to the number of layers."""
    accuracy: float
    """Share of spans classified correctly."""
    interval: Interval
    """The interval of that share, 95 %, by a bootstrap over texts, whose spans are alike: of other texts, not other seeds."""
    control_accuracy: float
    """Share of spans that get the control task's class (Hewitt and Liang 2019)."""
    selectivity: float
    """accuracy - control_accuracy."""
    loss: float
    """Mean cross-entropy, nats."""
    dev_loss: float
    """The same on the dev spans, of the first seed: the layer with the lowest is the best."""
    spread: tuple[float, float]
    """The least and the largest accuracy of a seed."""
    best_epochs: tuple[int, ...]
    """The epoch of each seed whose weights were kept, from 1."""
    control_loss: float
    """Mean cross-entropy of the control task, nats."""
    control_dev_loss: float
    """The same on the dev spans, of the first seed."""
    gradient: float | None
    """With ending="minimum", the largest absolute partial derivative at these weights, of the seed that has the largest: above
    0.00001 if `max_epochs` ended training."""


COLUMNS = ("layer", "accuracy", "low", "high", "control", "selectivity", "loss", "seed_low", "seed_high")


@record
class ProbeResult:
    """Probes of all layers, beside a control task and the most frequent class."""

    layers: tuple[LayerProbe, ...]
    """The probes, in ascending order of their layers."""
    labels: tuple[str, ...]
    """The names of the classes."""
    scored: str
    """The part that scores are of: "test", or "dev" without test texts."""
    train: ProbePart
    """The spans that probes were trained on."""
    dev: ProbePart
    """The spans that ended training."""
    test: ProbePart | None
    """The spans that probes were tested on; None without test texts."""
    majority_label: str
    """The most frequent class of the training spans."""
    best_layer: int
    """The layer with the lowest loss on the dev spans: chosen there, and scored on the test spans if there are any."""
    confusion: npt.NDArray[np.int64]
    """Scored spans by class (row) and by the best layer's answer (column), [classes, classes]."""
    pooling: str
    """How a span's pieces became one vector."""
    seeds: tuple[int, ...]
    """The seeds."""
    hidden_size: int
    """Length of a state."""
    on_disk: bool
    """True if the server kept the states in a file."""
    seconds: float
    """How long it took."""
    provenance: Provenance
    """Provenance of the states."""
    weights: Mapping[int, tuple[npt.NDArray[np.float32], ...]] = field(default_factory=dict)
    """By layer, weights [hidden_size, classes] and biases [classes] of the first seed's probe, if they were asked for: scores
    before the softmax are states @ weights + biases. With hidden units these have units instead of classes, and weights [units,
    classes] and biases [classes] that read relu(states @ weights + biases) follow them."""
    mix: LayerMix | None = None
    """Probes on mixes of layers, if they were asked for."""

    @property
    def part(self) -> ProbePart:
        """The part that scores are of."""
        return self.dev if self.test is None else self.test

    def layer(self, layer: int) -> LayerProbe:
        """Returns the probe of a layer. Raises KeyError for one that was not asked for."""
        for probe in self.layers:
            if probe.layer == layer:
                return probe
        raise KeyError(f"layer {layer}: probes are of layers {[probe.layer for probe in self.layers]}")

    def confusions(self) -> list[tuple[str, str, int]]:
        """Returns the classes that the best layer's probe takes for another, (class, answer, spans), most frequent first."""
        found = [
            (self.labels[gold], self.labels[answer], int(self.confusion[gold, answer]))
            for gold, answer in np.argwhere(self.confusion)
            if gold != answer
        ]
        return sorted(found, key=lambda entry: -entry[2])

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer, with the values of the table's columns."""
        return [
            (one.layer, one.accuracy, *one.interval, one.control_accuracy, one.selectivity, one.loss, *one.spread)
            for one in self.layers
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each layer. Needs pandas."""
        return data_frame(self.rows(), list(COLUMNS))

    def _repr_html_(self) -> str | None:
        return table_html(self)


def probe_columns(found: ProbeResult) -> dict[str, list[Any]]:
    """Returns the columns of the table of probes, by name."""
    return dict(zip(COLUMNS, map(list, zip(*found.rows(), strict=True)), strict=True))
