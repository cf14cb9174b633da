"""Measures models: their speed, their size, and what they lost.

Times are seconds, sizes bytes, shares 0 to 1. A ratio over 1 is for the better: smaller, faster, better than the baseline.
"""

from bertscope.benchmark.reports import (
    Agreement,
    BenchmarkProgress,
    BenchmarkReport,
    Disturbances,
    Machine,
    ModelReport,
    Ratio,
    Score,
    Speed,
)
from bertscope.benchmark.studies import Published, StudiesSummary, StudyRow, StudyTable

__all__ = [
    "Agreement",
    "BenchmarkProgress",
    "BenchmarkReport",
    "Disturbances",
    "Machine",
    "ModelReport",
    "Published",
    "Ratio",
    "Score",
    "Speed",
    "StudiesSummary",
    "StudyRow",
    "StudyTable",
]
