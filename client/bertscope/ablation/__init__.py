"""Measures the importance of heads: objectives, sweeps, rankings.

Layers and heads count from 0. A score is the mean over the items of an objective; `BETTER` and `UNITS` say how to read it.
"""

from bertscope.ablation.effects import BETTER, UNITS, CurvePoint, HeadEffect, HeadSet, MetricEffect, heads_name
from bertscope.ablation.sweeps import Bootstrap, SweepStart, SweepSummary, SweepTable

__all__ = [
    "BETTER",
    "UNITS",
    "Bootstrap",
    "CurvePoint",
    "HeadEffect",
    "HeadSet",
    "MetricEffect",
    "SweepStart",
    "SweepSummary",
    "SweepTable",
    "heads_name",
]
