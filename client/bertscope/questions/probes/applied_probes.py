"""Kept probes on other texts: the answers for each span, and how often they are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertscope.values.display import data_frame, record, table_html
from bertscope.values.intervals import Interval, share_interval
from bertscope.values.merging import require_same, same_weights, total
from bertscope.values.results import Provenance
from bertscope.values.spans import Span

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AppliedLayer", "AppliedProbe", "ProbedSpan"]


class ProbedSpan(NamedTuple):
    """A span that was classified."""

    text: int
    """Index of its text."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    segment: int
    """0 for the text, 1 for the second text of a pair."""
    words: str
    """The part of the text; both parts of a pair, with " / " between them."""
    label: str | None
    """Its class; None if it is not known."""
    other: Span | None = None
    """The second part of a pair."""


@record
class AppliedLayer:
    """The answers of the probe of one layer."""

    layer: int
    """0, the embeddings, to the number of layers."""
    classes: npt.NDArray[np.int64]
    """Indices in the labels of the most probable classes of each span, most probable first, [spans, top_k]."""
    probabilities: npt.NDArray[np.float32]
    """Their probabilities, [spans, top_k]."""
    correct: int
    """Scored spans that it classifies correctly."""
    loss: float
    """Sum over scored spans of the cross-entropy, nats."""
    confusion: npt.NDArray[np.int64]
    """Scored spans by class (row) and by answer (column), [classes, classes]."""


COLUMNS = ("layer", "text", "start", "end", "segment", "words", "label", "answer", "probability")


@record
class AppliedProbe:
    """Kept probes on some texts. Scored spans are those whose class is among the probe's labels."""

    texts: int
    """Texts that were asked about."""
    spans: tuple[ProbedSpan, ...]
    """The spans that were classified."""
    layers: tuple[AppliedLayer, ...]
    """The answers by layer, ascending."""
    labels: tuple[str, ...]
    """The names of the classes."""
    scored_spans: int
    """Classified spans whose class is among the labels."""
    truncated_spans: int
    """Spans that were left out because they were cut away with the end of a text."""
    empty_spans: int
    """Spans that were left out because no piece begins in them."""
    unseen_labels: tuple[tuple[str, int], ...]
    """Classes of classified spans that the probe does not have, with their numbers of spans, by name: they are not scored."""
    provenance: Provenance
    """Provenance of the states."""

    def layer(self, layer: int) -> AppliedLayer:
        """Returns the answers of a layer. Raises KeyError for one without a probe."""
        for own in self.layers:
            if own.layer == layer:
                return own
        raise KeyError(f"layer {layer}: probes are of layers {[own.layer for own in self.layers]}")

    def accuracy(self, layer: int) -> float:
        """Returns the share of scored spans that a layer's probe classifies correctly; NaN without any."""
        return self.layer(layer).correct / self.scored_spans if self.scored_spans else math.nan

    def interval(self, layer: int) -> Interval:
        """Returns the interval of that share, 95 %, by a bootstrap over texts, whose spans are alike."""
        answers = self.layer(layer).classes[:, 0].tolist()
        if not self.scored_spans:
            return Interval(math.nan, math.nan)
        numbers = {label: number for number, label in enumerate(self.labels)}
        scored: dict[int, list[bool]] = {}
        for span, answer in zip(self.spans, answers, strict=True):
            if span.label in numbers:
                scored.setdefault(span.text, []).append(numbers[span.label] == answer)
        found, spans = ([float(count(own)) for own in scored.values()] for count in (sum, len))
        return share_interval(np.array(found), np.array(spans))

    def loss(self, layer: int) -> float:
        """Returns the mean cross-entropy of scored spans, nats; NaN without any."""
        return self.layer(layer).loss / self.scored_spans if self.scored_spans else math.nan

    def confusions(self, layer: int) -> list[tuple[str, str, int]]:
        """Returns the classes that a layer's probe takes for another, (class, answer, spans), most frequent first."""
        counts = self.layer(layer).confusion
        wrong = ((self.labels[gold], self.labels[answer], int(counts[gold, answer])) for gold, answer in np.argwhere(counts))
        return sorted((entry for entry in wrong if entry[0] != entry[1]), key=lambda entry: -entry[2])

    @classmethod
    def merge(cls, found: Sequence[AppliedProbe]) -> AppliedProbe:
        """Returns the answers of several calls as of one, in their order. Raises InvalidArgument for other probes, and
        FailedPrecondition for models with other weights."""
        require_same(found, ("labels",))
        unseen: dict[str, int] = {}
        for name, count in (entry for one in found for entry in one.unseen_labels):
            unseen[name] = unseen.get(name, 0) + count
        counts = ("texts", "spans", "scored_spans", "truncated_spans", "empty_spans")
        sums: dict[str, Any] = {name: total(getattr(one, name) for one in found) for name in counts}
        return replace(
            found[0],
            **sums,
            layers=tuple(_merged(own) for own in zip(*(one.layers for one in found), strict=True)),
            unseen_labels=tuple(sorted(unseen.items())),
            provenance=same_weights(one.provenance for one in found),
        )

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer and span, with the values of the table's columns: the most probable class is the
        answer."""
        return [
            (own.layer, *span[:-1], self.labels[classes[0]], float(shares[0]))
            for own in self.layers
            for span, classes, shares in zip(self.spans, own.classes.tolist(), own.probabilities, strict=True)
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each layer and span. Needs pandas."""
        return data_frame(self.rows(), list(COLUMNS))

    def _repr_html_(self) -> str | None:
        return table_html(self)


def _merged(parts: Sequence[AppliedLayer]) -> AppliedLayer:
    return AppliedLayer(
        parts[0].layer,
        np.concatenate([one.classes for one in parts]),
        np.concatenate([one.probabilities for one in parts]),
        sum(one.correct for one in parts),
        sum(one.loss for one in parts),
        np.sum([one.confusion for one in parts], axis=0),
    )
