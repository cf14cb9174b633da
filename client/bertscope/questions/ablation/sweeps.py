"""Describes a whole sweep, with its start and its end.

Layers and heads count from 0.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import invalid_argument
from bertscope.questions.ablation.effects import CurvePoint, HeadEffect, MetricEffect
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bootstrap", "SweepStart", "SweepSummary", "SweepTable"]

MEASURES = ("score", "difference", "low", "high", "mcnemar_p")

CHANGED = {"zero": "zeroed", "uniform": "made uniform", "mean": "replaced by its mean", "scale": "scaled"}
SCOPES = {"heads": "head", "layers": "layer", "sets": "set of heads"}
METRIC_COLUMNS = ["metric", "score", "difference", "low", "high", "mcnemar_p", "interval_method", "no_interval"]
EFFECT_COLUMNS = ["layer", "head", "heads", *METRIC_COLUMNS]
POINT_COLUMNS = ["removed", "share_removed", "added", *METRIC_COLUMNS]


@dataclass(frozen=True)
class Bootstrap:
    """The parameters of intervals."""

    resamples: int
    """Number of resamples."""
    seed: int
    """Seed of the resampling."""
    confidence: float
    """Confidence of the intervals, over 0 to 1."""


@record
class SweepStart:
    """The data of a sweep that are known before anything is changed."""

    baseline: Mapping[str, float]
    """Score of each metric, the objective's first one first."""
    total: int
    """Number of effects or points that follow."""
    items: int
    """Number of measured items."""
    skipped_items: int
    """Number of prompts left out."""
    truncated_texts: int
    """Number of texts cut."""
    predicted_pieces: int
    """Number of masks of all texts; 0 for labels."""
    bootstrap: Bootstrap | None = None
    """The server's parameters of intervals; None from a server that does not send them."""
    provenance: Provenance | None = None
    """Provenance of the numbers; None from a server that sends it only in the summary."""
    done: int = 0
    """Number of sets left out, because an earlier sweep has measured them."""


@record
class SweepSummary:
    """The end of a sweep."""

    helped: int
    """Number of sets whose change made the first metric better, by its interval; 0 for divergences and curves."""
    hurt: int
    """Number of sets whose change made it worse. The others can't be distinguished from no effect."""
    layer_passes: int
    """Runs of one layer on one text that were computed."""
    full_layer_passes: int
    """Runs that the sweep takes without shared layers."""
    seconds: float
    """Duration of the sweep."""
    provenance: Provenance
    """Provenance of the numbers."""


@dataclass(frozen=True, repr=False)
class SweepTable:
    """A whole sweep: effects or, if greedy, points."""

    mode: str
    """The contribution of the changed heads: "zero", "uniform", "mean", "scale"."""
    scope: str
    """The units changed one after another: "heads", "layers", or the given "sets"."""
    start: SweepStart
    """The baseline and the counts."""
    effects: tuple[HeadEffect, ...]
    """Effects in the order of the reply; empty for a greedy sweep."""
    points: tuple[CurvePoint, ...]
    """Points in the order of removal; empty unless the sweep is greedy."""
    summary: SweepSummary
    """Counts, cost and provenance; for a sweep that was cut short, without the layer passes, which are sent at the end."""
    factor: float | None = None
    """Factor of mode "scale"."""
    confidence: float = 0.95
    """Confidence of the intervals, over 0 to 1."""
    resamples: int = 1000
    """Resamples of the bootstrap."""
    seed: int = 0
    """Seed of the bootstrap."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The sweep's request, long values as digests: a sweep that resumes this one must have the same."""
    interrupted: str | None = None
    """Why the sweep was cut short; None for a whole one. `start_from` of `Client.sweep_heads` measures what is left."""
    resumed: int = 0
    """Number of effects, or points, from earlier sweeps that were cut short; layer passes are of the last one alone."""

    @property
    def complete(self) -> bool:
        """True for a whole sweep."""
        return self.interrupted is None

    @property
    def count(self) -> int:
        """Number of effects or points received, of `start.total`."""
        return len(self.effects) + len(self.points)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the sweep as JSON; `load` reads it, and `start_from` resumes it if it was cut short."""
        Path(path).write_text(json.dumps(document(self), indent=2, allow_nan=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> SweepTable:
        """Reads a file of `save`, or of `bertscope sweep` with --json or --output FILE.json.

        Raises InvalidArgument for a file with other contents, OSError for one that can't be read.
        """
        try:
            return table_of(json.loads(Path(path).read_bytes()))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            problem = f"{path} is not a sweep as JSON; give what SweepTable.save, --json or --output FILE.json wrote"
            raise invalid_argument("start_from", problem) from None

    def __repr__(self) -> str:
        # One line: a notebook shows a cell's last value, and the effects fill pages.
        scores = ", ".join(f"{metric} {score:.4g}" for metric, score in self.baseline.items())
        found = f"{len(self.points)} points" if self.points else f"{len(self.effects)} effects"
        found += "" if self.complete else f" of {self.start.total}, cut short"
        return f"<SweepTable: {self.what}, {self.start.items} items, {self.provenance.model}; baseline {scores}; {found}>"

    @property
    def baseline(self) -> Mapping[str, float]:
        """Score of each metric with nothing changed."""
        return self.start.baseline

    @property
    def provenance(self) -> Provenance:
        """Provenance of the numbers."""
        return self.summary.provenance

    @property
    def what(self) -> str:
        """The change in words: "each head zeroed"."""
        order = ", one after another" if self.points else ""
        return f"each {SCOPES[self.scope]} {CHANGED.get(self.mode, self.mode)}{order}"

    def metric(self, name: str | None = None) -> str:
        """Returns the name, checked; the objective's first metric if there is none. Raises KeyError for another objective's."""
        if name is not None and name not in self.baseline:
            raise KeyError(f"{name} is not among the metrics of the sweep: {', '.join(self.baseline)}")
        return name or next(iter(self.baseline))

    def matrix(self, metric: str | None = None, what: str = "difference") -> npt.NDArray[np.float64]:
        """Returns [layers, heads], or [layers, 1] for a sweep over layers; NaN where nothing was measured.

        `what` is "score", "difference", "low", "high" or "mcnemar_p". The array extends to the last measured layer and head.
        Raises ValueError for a curve and for sets of several heads, which have no place in it.
        """
        name = self.metric(metric)
        if what not in MEASURES:
            raise ValueError(f"what must be one of {', '.join(MEASURES)}, not {what!r}")
        if not self.effects or not (self.scope == "layers" or all(effect.head is not None for effect in self.effects)):
            raise ValueError("only a sweep over heads or layers is a matrix; to_pandas() takes any")
        places = [
            (effect.layer or 0, 0 if self.scope == "layers" else effect.head or 0, getattr(effect.metrics[name], what))
            for effect in self.effects
        ]
        shape = 1 + max(layer for layer, _, _ in places), 1 + max(head for _, head, _ in places)
        result = np.full(shape, math.nan)
        for layer, head, value in places:
            result[layer, head] = math.nan if value is None else value
        return result

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each effect and metric: layer, head, heads ("3:1,4"), metric, score, difference, low, high,
        mcnemar_p; for a curve, a row for each point and metric: removed, share_removed, added, metric and so on. Needs the
        extra "pandas"."""
        columns, rows = sweep_rows(self)
        frame = data_frame(rows, columns)
        types = dict.fromkeys(("low", "high", "mcnemar_p"), "float64") | dict.fromkeys(
            {"layer", "head"} & set(columns), "Int64"
        )
        return frame.astype(types)


def sweep_rows(table: SweepTable) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Returns columns, and a row for each effect or point and metric; needs no pandas."""
    if table.points:
        point_rows = [
            (point.removed, point.share_removed, " ".join(point.names), *dataclasses.astuple(metric))
            for point in table.points
            for metric in point.metrics.values()
        ]
        return POINT_COLUMNS, point_rows
    effect_rows = [
        (effect.layer, effect.head, effect.name, *dataclasses.astuple(metric))
        for effect in table.effects
        for metric in effect.metrics.values()
    ]
    return EFFECT_COLUMNS, effect_rows


def document(table: SweepTable) -> dict[str, Any]:
    """Returns the sweep in JSON types."""
    return {
        "complete": table.complete,
        "interrupted": table.interrupted,
        "resumed": table.resumed,
        "mode": table.mode,
        "scope": table.scope,
        "factor": table.factor,
        "confidence": table.confidence,
        "resamples": table.resamples,
        "seed": table.seed,
        "asked": dict(table.asked),
        "start": dataclasses.asdict(table.start),
        "effects": [{"layer": effect.layer, "head": effect.head, **dataclasses.asdict(effect)} for effect in table.effects],
        "points": list(map(dataclasses.asdict, table.points)),
        "summary": dataclasses.asdict(table.summary),
    }


def table_of(values: Mapping[str, Any]) -> SweepTable:
    """Returns the sweep of a document. Raises KeyError, TypeError, ValueError or AttributeError for another document."""
    start, summary = dict(values["start"]), dict(values["summary"])
    bootstrap, provenance = start["bootstrap"], start["provenance"]
    start["bootstrap"] = None if bootstrap is None else Bootstrap(**bootstrap)
    start["provenance"] = None if provenance is None else Provenance(**provenance)
    summary["provenance"] = Provenance(**summary["provenance"])
    names = ("mode", "scope", "factor", "confidence", "resamples", "seed", "asked", "interrupted", "resumed")
    return SweepTable(
        start=SweepStart(**start),
        effects=tuple(HeadEffect(_heads(effect["heads"]), _metrics(effect["metrics"])) for effect in values["effects"]),
        points=tuple(
            CurvePoint(tuple(map(_heads, point["added"])), point["removed"], point["share_removed"], _metrics(point["metrics"]))
            for point in values["points"]
        ),
        summary=SweepSummary(**summary),
        **{name: values[name] for name in names},
    )


def _heads(heads: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    return {int(layer): tuple(map(int, numbers)) for layer, numbers in heads.items()}


def _metrics(metrics: Mapping[str, Any]) -> dict[str, MetricEffect]:
    return {name: MetricEffect(**metric) for name, metric in metrics.items()}
