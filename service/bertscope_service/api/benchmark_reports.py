"""Replies of BenchmarkService."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bertscope.v1 import benchmark_pb2

from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.api.enums import numbers
from bertscope_service.api.intervals import METHODS, METRICS, NO_INTERVALS, render_bootstrap
from bertscope_service.api.model_rendering import render_applied
from bertscope_service.api.provenance import PRECISIONS, RUNTIMES, render_provenance
from bertscope_service.benchmark.agreement import Agreement
from bertscope_service.benchmark.copies import BYTES, ComparedModel, ComparedModels
from bertscope_service.benchmark.integer_speed import integer_warnings
from bertscope_service.benchmark.losses import Score
from bertscope_service.benchmark.measure import Measured, ModelMeasures, Speed
from bertscope_service.benchmark.timings import Ratio, Verdict
from bertscope_service.benchmark.vectors import VectorAgreement
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.observability.machine import Machine

MUCH_LOAD = 0.1
"""A report warns if other processes take at least this share of the processor."""

VERDICTS = numbers(Verdict, benchmark_pb2.Ratio.Verdict, "VERDICT_")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a benchmark: measurements of each model and reference; agreement of predictions or vectors and scores of
    each model, None and empty if not requested."""

    compared_models: ComparedModels
    measured: Measured
    agreements: Sequence[Agreement | None]
    vectors: Sequence[VectorAgreement | None]
    scores: Sequence[Sequence[Score]]


def render_progress(stage: str, done: float) -> benchmark_pb2.BenchmarkProgress:
    return benchmark_pb2.BenchmarkProgress(stage=stage, done=min(1.0, max(0.0, done)))


def render_report(result: Result, baseline: int, seconds: float, bootstrap: Bootstrap) -> benchmark_pb2.BenchmarkReport:
    """Renders a report; `baseline` is the number of the baseline among the models."""
    compared_models, measured = result.compared_models, result.measured
    every = compared_models.every
    base = every[baseline]
    reports = [
        render_compared_model(compared_model, base.loaded, every[compared_model.compared], own)
        for compared_model, own in zip(every, measured.models, strict=True)
    ]
    lost = zip(reports, result.agreements, result.vectors, result.scores, strict=False)
    for report, agreement, vectors, own_scores in lost:
        if agreement is not None:
            report.agreement.CopyFrom(_agreement(agreement))
        if vectors is not None:
            report.vectors.CopyFrom(_vectors(vectors))
        report.scores.extend(map(_score, own_scores))
    return benchmark_pb2.BenchmarkReport(
        machine=benchmark_pb2.Machine(**asdict(measured.machine)),
        baseline=base.loaded.name,
        models=reports[: compared_models.models],
        references=reports[compared_models.models :],
        disturbances=benchmark_pb2.Disturbances(waited=measured.waited, refused=measured.refused),
        seconds=seconds,
        cut_short=measured.cut_short,
        warnings=[
            *load_warnings(measured.machine, cut_short=measured.cut_short),
            *form_warnings(compared_models),
            *integer_warnings(compared_model.runs for compared_model in every),
        ],
        bootstrap=render_bootstrap(bootstrap),
    )


def render_compared_model(
    compared_model: ComparedModel, baseline: LoadedModel, other: ComparedModel, measures: ModelMeasures
) -> benchmark_pb2.ModelReport:
    """Renders a model as it ran, with the model that it is compared with."""
    report = render_model_report(compared_model.runs, baseline, measures, compared_model.caveat)
    report.weight_bytes = compared_model.loaded.weight_bytes
    report.compression = baseline.weight_bytes / compared_model.loaded.weight_bytes
    report.copied = compared_model.copied
    report.loaded_runtime = RUNTIMES[compared_model.loaded.encoder.runtime]
    report.loaded_precision = PRECISIONS[compared_model.loaded.encoder.precision]
    if other is not compared_model:
        report.compared_with.CopyFrom(render_provenance(other.runs))
    return report


def load_warnings(machine: Machine, *, cut_short: bool) -> list[str]:
    """Returns warnings about the machine and the time limit."""
    warnings = []
    if machine.other_load >= MUCH_LOAD:
        took = f"other processes took {100 * machine.other_load:.0f} % of the processor while speed was measured"
        warnings.append(f"{took}: all times are too long, and ratios may be off by more than their intervals say")
    if cut_short:
        warnings.append("cut short by the time limit: some models have fewer runs than requested")
    return warnings


def form_warnings(compared_models: ComparedModels) -> list[str]:
    """Returns warnings about models that did not run in the same way as the model they are compared with, with the reason."""
    named: dict[str, list[str]] = {}
    for compared_model in compared_models.every:
        if compared_model.caveat:
            named.setdefault(compared_model.caveat, []).append(compared_model.loaded.name)
    warnings = [
        f"{', '.join(names)}: {caveat} than the baseline, so a speed-up is not the model's alone"
        for caveat, names in named.items()
    ]
    return [*warnings, *compared_models.remarks]


def render_model_report(
    model: LoadedModel, baseline: LoadedModel, measures: ModelMeasures, caveat: str = ""
) -> benchmark_pb2.ModelReport:
    """Renders the measurements of a model without its losses. `caveat` goes with its speed-ups."""
    return benchmark_pb2.ModelReport(
        provenance=render_provenance(model),
        parameters=model.encoder.shape.parameters,
        nonzero_parameters=measures.nonzero_parameters,
        weight_bytes=model.weight_bytes,
        resident_bytes=measures.resident_bytes,
        working_bytes=measures.working_bytes,
        compression=baseline.weight_bytes / model.weight_bytes,
        size_ratio=_bytes_in_use(baseline) / _bytes_in_use(model),
        speeds=[_speed(speed, caveat) for speed in measures.speeds],
        steps=map(render_applied, model.steps),
        loaded_runtime=RUNTIMES[model.encoder.runtime],
        loaded_precision=PRECISIONS[model.encoder.precision],
    )


def _bytes_in_use(model: LoadedModel) -> int:
    """Returns the bytes of the weights in the number format that the model runs in, however its files are stored."""
    each = BYTES.get(model.encoder.precision)
    return each * model.encoder.shape.parameters if each and model.encoder.shape.parameters else model.weight_bytes


def _speed(speed: Speed, caveat: str) -> benchmark_pb2.Speed:
    p50, p90, p95, p99 = speed.percentiles
    return benchmark_pb2.Speed(
        length=speed.length,
        p50_seconds=p50,
        p90_seconds=p90,
        p95_seconds=p95,
        p99_seconds=p99,
        runs=speed.runs,
        best_batch=speed.best_batch,
        throughput=speed.throughput,
        batches=speed.batches,
        latency_speedup=_ratio(speed.latency_speedup, caveat),
        throughput_speedup=_ratio(speed.throughput_speedup, caveat),
    )


def _ratio(ratio: Ratio | None, caveat: str = "") -> benchmark_pb2.Ratio | None:
    if ratio is None:
        return None
    return benchmark_pb2.Ratio(
        value=ratio.value,
        low=ratio.low,
        high=ratio.high,
        verdict=VERDICTS[ratio.verdict],
        caveat=caveat,
        interval_method=METHODS[ratio.method],
        no_interval=NO_INTERVALS[ratio.no_interval],
    )


def _agreement(agreement: Agreement) -> benchmark_pb2.Agreement:
    return benchmark_pb2.Agreement(
        top_1=agreement.top_1,
        top_k=agreement.top_k,
        k=agreement.k,
        divergence=agreement.divergence,
        divergence_low=agreement.low,
        divergence_high=agreement.high,
        places=agreement.places,
    )


def _vectors(found: VectorAgreement) -> benchmark_pb2.VectorAgreement:
    cosine, neighbours, ranks = found.cosine, found.neighbours, found.rank_correlation
    return benchmark_pb2.VectorAgreement(
        cosine=None if cosine is None else cosine.value,
        cosine_low=None if cosine is None else cosine.low,
        cosine_high=None if cosine is None else cosine.high,
        neighbours=neighbours.value,
        neighbours_low=neighbours.low,
        neighbours_high=neighbours.high,
        k=found.k,
        rank_correlation=ranks.value,
        rank_correlation_low=ranks.low,
        rank_correlation_high=ranks.high,
        texts=found.texts,
    )


def _score(score: Score) -> benchmark_pb2.Score:
    return benchmark_pb2.Score(metric=METRICS[score.metric], value=score.value, retained=_ratio(score.retained))
