"""Renders the spans of the parts of TrainProbe and TrainEraser, and what probes do on each text."""

from __future__ import annotations

import numpy as np
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.probes import ProbePart


def render_part(part: ProbePart, classes: int, majority: int) -> probes_pb2.ProbePart:
    found = probes_pb2.ProbePart(
        texts=part.texts, spans=len(part.labels), truncated_spans=part.truncated, empty_spans=part.empty
    )
    if part.labels.dtype == np.float64:
        found.value_mean, found.value_variance = float(part.labels.mean()), float(part.labels.var())
    else:
        counts = np.bincount(part.labels, minlength=classes)
        found.label_spans.extend(counts.tolist())
        found.majority_correct = int(counts[majority])
    return found


def render_values(part: ProbePart) -> list[probes_pb2.TextValues]:
    """Renders the sums of each scored text's differences from the mean, and of their squares."""
    begins, away = np.cumsum(part.counts) - part.counts, part.labels - part.labels.mean()
    sums = [np.add.reduceat(values, begins).tolist() for values in (away, away**2)]
    return [
        probes_pb2.TextValues(spans=spans, sum=total, squares=squares)
        for spans, total, squares in zip(part.counts.tolist(), *sums, strict=True)
    ]


def render_hits(counts: NDArray[np.int64], hits: NDArray[np.int64]) -> list[probes_pb2.TextHits]:
    """Renders how many texts have as many spans and correct ones."""
    kinds, texts = np.unique(np.stack([counts, hits], axis=1), axis=0, return_counts=True)
    found = np.column_stack([kinds, texts]).tolist()
    return [probes_pb2.TextHits(spans=spans, correct=correct, texts=number) for spans, correct, number in found]
