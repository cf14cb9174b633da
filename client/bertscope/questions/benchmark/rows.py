"""Converts benchmarks to flat rows for CSV, JSON lines and pandas. Pure, and needs no pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertscope.questions.benchmark.reports import BenchmarkReport, ModelReport, Ratio, Score, Speed, StudyRow, StudyTable

Row = Mapping[str, Any]

SIZES = ("parameters", "nonzero_parameters", "weight_bytes", "resident_bytes", "working_bytes", "compression")
TIMES = ("p50_seconds", "p90_seconds", "p95_seconds", "p99_seconds", "runs", "best_batch", "throughput", "batches")
SPEEDUPS = ("latency_speedup", "throughput_speedup")
RATIO = ("low", "high", "verdict", "caveat", "interval_method", "no_interval")
AGREEMENT = ("top_1", "top_k", "k", "divergence", "divergence_low", "divergence_high", "places")
VECTORS = (
    *("cosine", "cosine_low", "cosine_high", "neighbours", "neighbours_low", "neighbours_high"),
    *("rank_correlation", "rank_correlation_low", "rank_correlation_high"),
)
PUBLISHED = ("system", "technique", "compression", "performance", "speedup", "relative_to", "evaluated_on")


def report_rows(report: BenchmarkReport) -> list[Row]:
    """Returns a row for each model and length, and for the baseline in each other way that it ran."""
    return [
        {
            "model": model.name,
            "baseline": model.name == report.baseline,
            **_how(model),
            "copied": model.copied,
            "loaded_runtime": model.loaded_runtime,
            **_fields(model, SIZES),
            **_speed(speed),
            **_fields(model.agreement, AGREEMENT),
            **_vectors(report, model),
            **_scores(model.scores, report.metrics),
        }
        for model in (*report.models, *report.references)
        for speed in model.speeds
    ]


def study_rows(table: StudyTable) -> list[Row]:
    """Returns a row for each system and length; a single one for a system that was not measured."""
    return [row for study in table.studies for row in _study(study)]


def columns(rows: Iterable[Row]) -> list[str]:
    """Returns every column of the rows, in order."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _study(row: StudyRow) -> Iterable[Row]:
    published = {f"published_{name}": value for name, value in _fields(row.published, PUBLISHED).items()}
    first = {
        "system": published.pop("published_system"),
        "technique": published.pop("published_technique"),
        **published,
        "not_measured": row.not_measured,
        "built": row.built,
        "baseline": row.baseline,
    }
    for speed in row.measured.speeds if row.measured else (None,):
        yield {**first, **_how(row.measured), **_fields(row.measured, SIZES), **_speed(speed)}


def _how(model: ModelReport | None) -> Row:
    if model is None:
        return dict.fromkeys(("runtime", "device", "precision", "steps"))
    steps = "+".join(step.step for step in model.steps)
    return {**_fields(model.provenance, ("runtime", "device", "precision")), "steps": steps}


def _speed(speed: Speed | None) -> Row:
    row = _fields(speed, ("length", *TIMES))
    for name in SPEEDUPS:
        row |= _ratio(name, getattr(speed, name, None))
    return row


def _vectors(report: BenchmarkReport, model: ModelReport) -> Row:
    """Returns the agreement of vectors, of which the places are texts; nothing where no model's were compared."""
    if not any(each.vectors for each in report.models):
        return {}
    return _fields(model.vectors, ("k", *VECTORS)) | {"places": getattr(model.vectors, "texts", None)}


def _scores(scores: tuple[Score, ...], metrics: tuple[str, ...]) -> Row:
    by_metric = {score.metric: score for score in scores}
    row: dict[str, Any] = {}
    for metric in metrics:
        score = by_metric.get(metric)
        row |= {metric: score.value if score else None} | _ratio(f"{metric}_retained", score.retained if score else None)
    return row


def _ratio(name: str, ratio: Ratio | None) -> dict[str, Any]:
    return {name: ratio.value if ratio else None, **{f"{name}_{part}": getattr(ratio, part, None) for part in RATIO}}


def _fields(source: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(source, name, None) for name in names}
