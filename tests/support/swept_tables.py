"""Sweeps and rankings of made-up numbers, for tests of what is drawn of them."""

import numpy as np
from bertscope import CurvePoint, HeadEffect, HeadRanking, MetricEffect, Provenance, SweepStart, SweepSummary, SweepTable

SUMMARY = SweepSummary(0, 0, 1, 1, 1.0, Provenance("models/$m$", "", "torch", "cpu", "fp32", {}, "zero_based"))


def metric_effect(metric: str, difference: float, margin: float | None = 0.1, p: float | None = None) -> MetricEffect:
    low, high = (None, None) if margin is None else (difference - margin, difference + margin)
    return MetricEffect(metric, 0.5 + difference, difference, low, high, p)


def table_of(differences: dict[tuple[int, ...], float], metric: str = "accuracy", scope: str = "heads") -> SweepTable:
    """A table of single heads (layer, head), or of layers (layer, head, head, ...)."""
    effects = tuple(
        HeadEffect({layer: tuple(heads)}, {metric: metric_effect(metric, value), "loss": metric_effect("loss", -value)})
        for (layer, *heads), value in differences.items()
    )
    start = SweepStart({metric: 0.5, "loss": 0.5}, len(effects), 7, 0, 0, 0)
    return SweepTable("zero", scope, start, effects, (), SUMMARY)


def curve(*shares: float, margin: float | None = 0.1) -> SweepTable:
    points = tuple(
        CurvePoint((), 0, abs(share), {"accuracy": metric_effect("accuracy", max(-share, -0.4), margin)}) for share in shares
    )
    return SweepTable("zero", "heads", SweepStart({"accuracy": 0.5}, 3, 7, 0, 0, 0), (), points, SUMMARY)


HEADS = table_of({(0, 0): 0.4, (1, 1): -0.4, (1, 0): 0.05})


def ranking() -> HeadRanking:
    importance = np.array([[0.6, 0.8], [1, 0]], np.float32)
    return HeadRanking(importance, importance, 7, 0, 1.5, SUMMARY.provenance)
